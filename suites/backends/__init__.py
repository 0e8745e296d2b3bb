"""Backends by name."""
