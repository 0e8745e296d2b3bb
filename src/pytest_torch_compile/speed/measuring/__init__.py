"""Measure a target in eager and compiled: times, kernels, memory. Needs torch."""
