"""Compiled float8 training with torchao."""
