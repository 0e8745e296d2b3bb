"""The runs of a check, called legs. Each leg makes all of the check's calls; all legs start from the same state."""
