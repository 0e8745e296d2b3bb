"""The speed gate. ``measuring`` needs torch; ``deciding`` imports neither torch nor pytest."""
