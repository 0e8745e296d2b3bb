"""Stored baselines, one folder for each environment: neither torch nor pytest."""
