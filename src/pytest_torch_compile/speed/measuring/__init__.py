"""Measure the times, kernels and memory of a target in eager and in compiled code. Requires torch."""
