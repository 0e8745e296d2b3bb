"""Read the block sizes of a generated kernel from the heuristics at the start of the kernel's source.

This module uses these private torch names, checked with torch 2.11, 2.13 and 2.15: ``PyCodeCache.load`` and
``CachingAutotuner.configs``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def blocks_of(name: str, source: str) -> tuple[Mapping[str, int], ...]:
    """Return the candidate block sizes that Inductor would time on the GPU, or an empty tuple if the sizes cannot be
    read.
    """
    from torch._inductor.codecache import PyCodeCache

    try:
        kernel: Any = getattr(PyCodeCache.load(source), name)
        return tuple({**config.kwargs, "num_warps": config.num_warps} for config in kernel.configs)
    except Exception:  # loading a user-defined kernel may need the GPU; block sizes are only for display
        return ()
