"""Stored baselines, with one folder for each environment (device and versions). This package imports neither torch nor
pytest.
"""
