"""The random gradients with which backward starts."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import torch

from .._torch.trees import inner_tensors, is_traceable_wrapper_subclass, with_inner_tensors


def cotangents(tensors: Sequence[torch.Tensor], seed: int) -> list[torch.Tensor]:
    """Return a random gradient for each output tensor; backward starts from these gradients. The same seed always
    produces the same gradients. The gradients are random, because errors of opposite sign would cancel out if backward
    started from the sum of all elements.
    """
    generator = torch.Generator("cpu").manual_seed(seed)
    return [_cotangent(tensor, generator) for tensor in tensors]


def _cotangent(tensor: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    if tensor.is_nested:  # the size of a nested tensor is not a number, so draw for values()
        made = torch.empty_like(tensor.detach())
        made.values().copy_(_cotangent(tensor.values(), generator))
        return made
    # The gradient of a wrapper, such as a DTensor, is a wrapper too, unless its tensors are of other dtypes.
    if is_traceable_wrapper_subclass(tensor) and all(i.dtype == tensor.dtype for i in inner_tensors(tensor).values()):
        return with_inner_tensors(tensor, lambda inner: _cotangent(inner, generator))
    draw = partial(torch.randn, tensor.shape, generator=generator, dtype=torch.float32, device="cpu")
    # Round to bfloat16. Its values are exact in float32 and float64, so all runs get the same gradients.
    noise = torch.complex(draw(), draw()) if tensor.is_complex() else draw().bfloat16()
    return noise.to(device=tensor.device, dtype=tensor.dtype)
