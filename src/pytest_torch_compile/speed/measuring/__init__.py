"""Measure the times, kernels and memory of a target, eager and compiled. Requires torch."""
