"""A leg: calls on a copy of the target that starts from the same state as every other leg."""
