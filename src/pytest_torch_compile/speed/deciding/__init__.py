"""Derive verdicts from measured runs. Imports neither torch nor pytest."""
