"""Mutation tests of the checker: wrong graphs it must find, honest ones it must pass."""
