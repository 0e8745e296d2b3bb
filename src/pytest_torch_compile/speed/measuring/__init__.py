"""Measure a target eager and compiled: times, kernels, memory. Needs torch."""
