"""Forget what was compiled, and what libraries keep.

Private names used, on torch 2.6, 2.8, 2.11, 2.13 and 2.15: ``torch._dynamo.reset``,
``torch._C._cuda_clearCublasWorkspaces``.
"""

from __future__ import annotations

import sys


def reset_dynamo() -> None:
    """Forget everything that was compiled in this process, if torch's compiler was loaded at all."""
    if "torch._dynamo" in sys.modules:
        sys.modules["torch._dynamo"].reset()


def drop_workspaces() -> None:
    """Free what cuBLAS keeps for each stream since its first product there: on an H200 32 MiB."""
    import torch

    torch._C._cuda_clearCublasWorkspaces()
