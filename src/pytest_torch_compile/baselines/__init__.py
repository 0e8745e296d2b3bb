"""Stored baselines, with one folder for each environment. Imports neither torch nor pytest."""
