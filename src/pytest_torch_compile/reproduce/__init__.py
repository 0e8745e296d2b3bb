"""Scripts that reproduce a failure (`--compile-repro`)."""
