"""Measure the times, kernels and memory of a target, eager and compiled. This package requires torch."""
