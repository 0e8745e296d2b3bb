"""Checks that run code in a fresh process: ``check_artifact`` and ``check_invariance``."""
