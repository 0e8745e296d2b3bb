"""Dynamic marks on tensors: ``torch._dynamo.mark_dynamic``, checked on torch 2.6, 2.8, 2.11, 2.13 and 2.15."""

from __future__ import annotations

import torch
import torch._dynamo


def mark_dynamic_dim(tensor: torch.Tensor, dim: int, bounds: tuple[int, int] | None = None) -> None:
    """Mark one dimension dynamic, within ``bounds`` (smallest and largest size) where they are given."""
    if bounds is None:
        torch._dynamo.mark_dynamic(tensor, dim)
    else:
        torch._dynamo.mark_dynamic(tensor, dim, min=bounds[0], max=bounds[1])
