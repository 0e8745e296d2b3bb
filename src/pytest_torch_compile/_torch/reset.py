"""Discard compiled code, and free memory that libraries hold.

This module uses these private torch names, checked with torch 2.6, 2.8, 2.11, 2.13 and 2.15: ``torch._dynamo.reset``,
``torch._C._cuda_clearCublasWorkspaces``, ``torch._inductor.utils.clear_caches`` (on 2.6 ``clear_inductor_caches``).
"""

from __future__ import annotations

import sys


def reset_dynamo() -> None:
    """Discard all compiled code in this process, if torch's compiler is loaded."""
    if "torch._dynamo" in sys.modules:
        sys.modules["torch._dynamo"].reset()


def forget_cache_folder() -> None:
    """Clear Inductor's in-memory caches after its cache folder was removed; do nothing if Inductor is not loaded.

    The caches contain compiled modules and, on torch 2.6, the path of a header that all C++ code includes.
    """
    if utils := sys.modules.get("torch._inductor.utils"):
        clear = getattr(utils, "clear_caches", None) or utils.clear_inductor_caches
        clear()


def drop_workspaces() -> None:
    """Free cuBLAS's workspaces. After a stream's first matrix product, cuBLAS keeps a workspace for the stream (32 MiB
    on an H200).
    """
    import torch

    torch._C._cuda_clearCublasWorkspaces()
