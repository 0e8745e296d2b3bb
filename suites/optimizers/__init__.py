"""Compiled optimizers."""
