"""Checks in a fresh process: deployment artifacts, and results that must not depend on the process."""
