"""The cost of the first call, and the savings in the next process."""
