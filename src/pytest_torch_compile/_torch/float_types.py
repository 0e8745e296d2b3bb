"""Float types that torch can store and hardly compute with."""

from __future__ import annotations

import torch

# Two numbers in a byte.
_PACKED = {getattr(torch, name) for name in ("float4_e2m1fn_x2",) if hasattr(torch, name)}


def is_packed(dtype: torch.dtype) -> bool:
    """Whether an element holds several numbers, which torch cannot take apart: they are compared as bytes."""
    return dtype in _PACKED
