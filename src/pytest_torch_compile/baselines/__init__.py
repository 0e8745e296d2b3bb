"""Stored baselines, with one folder for each environment (device and versions). Imports neither torch nor pytest."""
