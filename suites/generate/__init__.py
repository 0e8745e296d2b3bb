"""generate() with a compiled forward."""
