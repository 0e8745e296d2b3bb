"""Legs. A leg is one run of a check's calls; all legs of a check start from the same state."""
