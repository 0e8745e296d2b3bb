"""Forget what was compiled, and what libraries keep.

Private names used, on torch 2.6, 2.8, 2.11, 2.13 and 2.15: ``torch._dynamo.reset``,
``torch._C._cuda_clearCublasWorkspaces``, ``torch._inductor.utils.clear_caches`` (on 2.6 ``clear_inductor_caches``).
"""

from __future__ import annotations

import sys


def reset_dynamo() -> None:
    """Forget everything that was compiled in this process, if torch's compiler was loaded at all."""
    if "torch._dynamo" in sys.modules:
        sys.modules["torch._dynamo"].reset()


def forget_cache_folder() -> None:
    """Have Inductor forget, if it was loaded, what it wrote to a cache folder that is gone.

    It remembers compiled modules, and on torch 2.6 the path of a header that all C++ code includes.
    """
    if utils := sys.modules.get("torch._inductor.utils"):
        clear = getattr(utils, "clear_caches", None) or utils.clear_inductor_caches
        clear()


def drop_workspaces() -> None:
    """Free what cuBLAS keeps for each stream since its first product there: on an H200 32 MiB."""
    import torch

    torch._C._cuda_clearCublasWorkspaces()
