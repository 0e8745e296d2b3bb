"""Decide from stored and new measurements whether a test became slower or faster. This package imports neither torch
nor pytest.
"""
