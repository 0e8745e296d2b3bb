"""Decide from stored and new measurements whether a test became slower. Imports neither torch nor pytest."""
