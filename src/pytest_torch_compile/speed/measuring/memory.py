"""Memory of a CUDA device: what is in use, and what a call needs."""

from __future__ import annotations

import gc

import torch

from ..._torch.reset import drop_workspaces
from .kernels import Run


def free_leftovers() -> None:
    """Free what earlier tests or tuning left: this leg would seem to free it, or to keep it.

    cuBLAS takes a workspace at its first product, so that a leg's memory would depend on whether it is the first.
    """
    gc.collect()
    torch.cuda.synchronize()
    drop_workspaces()
    torch.cuda.empty_cache()


def transient_memory(run: Run) -> int:
    """The most that one call needs beyond what is in use before it."""
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = requested("current")
    run()
    torch.cuda.synchronize()
    return requested("peak") - before


def bytes_in_use() -> int:
    """Bytes in use, and those that the pools of CUDA graphs keep from everybody else."""
    pools = [s for s in torch.cuda.memory_snapshot() if tuple(s.get("segment_pool_id", (0, 0))) != (0, 0)]
    return requested("current") + sum(int(s["total_size"]) - int(s["active_size"]) for s in pools)


def requested(which: str) -> int:
    """Bytes asked of the allocator. What it allocates for them depends on the blocks that earlier tests left."""
    return int(torch.cuda.memory_stats().get(f"requested_bytes.all.{which}", 0))
