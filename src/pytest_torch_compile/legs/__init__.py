"""A leg is one run of the calls; all legs of a check start from the same state."""
