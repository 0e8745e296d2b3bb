"""Measure memory on a CUDA device: the current use, and the peak during a call."""

from __future__ import annotations

import gc

import torch

from ..._torch.reset import drop_workspaces
from .kernels import Run


def free_leftovers() -> None:
    """Release the memory that earlier tests or autotuning left allocated, because this memory would distort the next
    measurement.

    Also release cuBLAS's workspace. cuBLAS allocates the workspace at the first matrix product. If the workspace were
    not released, only the first measurement would include it.
    """
    gc.collect()
    torch.cuda.synchronize()
    drop_workspaces()
    torch.cuda.empty_cache()


def transient_memory(run: Run) -> int:
    """Return the peak memory during one call, minus the memory in use before the call."""
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = requested("current")
    run()
    torch.cuda.synchronize()
    return requested("peak") - before


def bytes_in_use() -> int:
    """Return the number of bytes in use, plus the unused bytes that CUDA graph pools reserve."""
    pools = [s for s in torch.cuda.memory_snapshot() if tuple(s.get("segment_pool_id", (0, 0))) != (0, 0)]
    return requested("current") + sum(int(s["total_size"]) - int(s["active_size"]) for s in pools)


def requested(which: str) -> int:
    """Return the number of bytes requested from the allocator; ``which`` is ``current`` or ``peak``. Unlike the number
    of allocated bytes, this number does not depend on cached blocks that earlier tests left behind.
    """
    return int(torch.cuda.memory_stats().get(f"requested_bytes.all.{which}", 0))
