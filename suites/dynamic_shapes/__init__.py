"""Sizes that change from call to call."""
