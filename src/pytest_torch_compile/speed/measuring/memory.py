"""Memory of a CUDA device: current use, and the peak of a call."""

from __future__ import annotations

import gc

import torch

from ..._torch.reset import drop_workspaces
from .kernels import Run


def free_leftovers() -> None:
    """Free memory that earlier tests or tuning left allocated, because it would distort this leg's measurements.

    cuBLAS allocates a workspace at its first product, so a leg's memory would depend on whether it runs first.
    """
    gc.collect()
    torch.cuda.synchronize()
    drop_workspaces()
    torch.cuda.empty_cache()


def transient_memory(run: Run) -> int:
    """Return the peak of one call minus the memory in use before it."""
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = requested("current")
    run()
    torch.cuda.synchronize()
    return requested("peak") - before


def bytes_in_use() -> int:
    """Return the number of bytes in use, and of bytes that CUDA graph pools reserve."""
    pools = [s for s in torch.cuda.memory_snapshot() if tuple(s.get("segment_pool_id", (0, 0))) != (0, 0)]
    return requested("current") + sum(int(s["total_size"]) - int(s["active_size"]) for s in pools)


def requested(which: str) -> int:
    """Return the number of bytes requested from the allocator. The number of allocated bytes would depend on blocks
    that earlier tests left.
    """
    return int(torch.cuda.memory_stats().get(f"requested_bytes.all.{which}", 0))
