"""The block sizes of a generated kernel, from the heuristics at its head.

Private names used, checked on torch 2.11, 2.13 and 2.15: ``PyCodeCache.load`` and ``CachingAutotuner.configs``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def blocks_of(name: str, source: str) -> tuple[Mapping[str, int], ...]:
    """The candidates that Inductor times on the card; empty for a user-defined kernel."""
    from torch._inductor.codecache import PyCodeCache

    try:
        kernel: Any = getattr(PyCodeCache.load(source), name)
        return tuple({**config.kwargs, "num_warps": config.num_warps} for config in kernel.configs)
    except Exception:  # block sizes are only shown, and a user-defined kernel may need the card
        return ()
