"""Float types that torch can store but supports only in a few ops."""

from __future__ import annotations

import torch

# Types with two numbers per byte.
_PACKED = {getattr(torch, name) for name in ("float4_e2m1fn_x2",) if hasattr(torch, name)}


def is_packed(dtype: torch.dtype) -> bool:
    """Return whether each element of this dtype contains several numbers. torch cannot unpack the numbers, so tensors
    of this dtype are compared as bytes.
    """
    return dtype in _PACKED
