"""A file that shows a failure again: `--compile-repro`."""
