"""One file for each package, with its targets under ``TARGETS``."""
