"""Data-parallel, sharded and tensor-parallel models, compiled."""
