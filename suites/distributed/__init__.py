"""Compiled data-parallel, sharded and tensor-parallel models."""
