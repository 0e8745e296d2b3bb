"""The random gradients with which backward starts."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import torch


def cotangents(tensors: Sequence[torch.Tensor], seed: int) -> list[torch.Tensor]:
    """Return random gradients for backward, which are the same in every leg. Backward from the sum of all elements
    would hide errors that cancel each other out.
    """
    generator = torch.Generator("cpu").manual_seed(seed)
    return [_cotangent(tensor, generator) for tensor in tensors]


def _cotangent(tensor: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    if tensor.is_nested:  # a nested tensor's sizes are not plain numbers, so the gradients are drawn for its values
        made = torch.empty_like(tensor.detach())
        made.values().copy_(_cotangent(tensor.values(), generator))
        return made
    draw = partial(torch.randn, tensor.shape, generator=generator, dtype=torch.float32, device="cpu")
    # bfloat16 numbers are exact in every dtype, so all legs get the same values.
    noise = torch.complex(draw(), draw()) if tensor.is_complex() else draw().bfloat16()
    return noise.to(device=tensor.device, dtype=tensor.dtype)
