"""Choose the kernel for ``scaled_dot_product_attention``. In torch, C++ code makes this choice based on device
properties.

This module replaces the operator's CUDA implementation. The conditions and their order are taken from torch's
``sdp_utils.cpp``. If these conditions were not verified for the GPU and torch version, the plan lists each choice as an
assumption.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from .recorded import not_recorded

if TYPE_CHECKING:
    from ...plan.cards import Card

CUDNN, FLASH, EFFICIENT, MATH = "cuDNN", "flash", "memory-efficient", "math"
_HALF = (torch.float16, torch.bfloat16)
_library: Any = None


@dataclass(frozen=True)
class Inputs:
    """The inputs of one call to ``scaled_dot_product_attention``, and the GPU's compute capability."""

    query: torch.Tensor
    key: torch.Tensor
    value: torch.Tensor
    mask: torch.Tensor | None
    dropout: float
    causal: bool
    capability: tuple[int, int]

    @property
    def head(self) -> int:
        return int(self.query.shape[-1])

    @property
    def same_heads(self) -> bool:
        return bool(self.query.shape[1] == self.key.shape[1] == self.value.shape[1])

    @property
    def trains(self) -> bool:
        return torch.is_grad_enabled() and any(t.requires_grad for t in (self.query, self.key, self.value))

    @property
    def last_strides_are_one(self) -> bool:
        tensors = [self.query, self.key, self.value, *([] if self.mask is None else [self.mask])]
        return all(tensor.stride(-1) == 1 for tensor in tensors)


def put_attention(card: Card, assume: Callable[[str], None]) -> None:
    """Make ``scaled_dot_product_attention`` choose the same kernel as on the GPU. If the rules were not verified for
    the GPU and torch version, ``assume`` is called with a description of each choice.
    """
    global _library
    unsure = not_recorded(card)

    def attention(
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        attn_mask: torch.Tensor | None = None,
        dropout_p: float = 0.0,
        is_causal: bool = False,
        *,
        scale: float | None = None,
        enable_gqa: bool = False,
    ) -> torch.Tensor:
        inputs = Inputs(query, key, value, attn_mask, dropout_p, is_causal, card.capability)
        kernel = kernel_of(inputs)
        if unsure:
            assume(f"attention uses the {kernel} kernel, according to the rules in torch's source; {unsure}")
        return _run(kernel, inputs, scale, enable_gqa)

    # A global variable, because torch removes the implementations when the library object is destroyed.
    _library = torch.library.Library("aten", "IMPL")
    for key in ("CUDA", "AutogradCUDA"):
        _library.impl("scaled_dot_product_attention", attention, key)


def kernel_of(inputs: Inputs) -> str:
    """Return the first kernel in torch's order of preference that supports the call."""
    # Hopper and the data center models of Blackwell.
    prefers_cudnn = inputs.capability in ((9, 0), (10, 0), (10, 3))
    order = (CUDNN, FLASH, EFFICIENT) if prefers_cudnn else (FLASH, EFFICIENT)
    return next((kernel for kernel in order if _POSSIBLE[kernel](inputs)), MATH)


def _fits(inputs: Inputs) -> bool:
    tensors = (inputs.query, inputs.key, inputs.value)
    sizes = all(tensor.ndim == 4 and tensor.numel() for tensor in tensors)
    return sizes and all(tensor.dtype == inputs.query.dtype for tensor in tensors) and inputs.last_strides_are_one


def _cudnn(inputs: Inputs) -> bool:
    heads = (inputs.head, int(inputs.value.shape[-1]))
    largest = 256 if inputs.capability == (9, 0) else 128
    sizes = all(head <= largest and head % 8 == 0 for head in heads)
    lengths = inputs.key.shape[2] != 1 and not (inputs.query.shape[2] == 1 and inputs.dropout)
    allowed = torch.backends.cuda.cudnn_sdp_enabled() and not torch.are_deterministic_algorithms_enabled()
    return allowed and _fits(inputs) and inputs.query.dtype in _HALF and sizes and lengths


def _flash(inputs: Inputs) -> bool:
    if not (torch.backends.cuda.flash_sdp_enabled() and _fits(inputs) and inputs.mask is None):
        return False
    heads = inputs.head == inputs.key.shape[-1] == inputs.value.shape[-1] and inputs.head <= 256
    # The flash kernel aligns a causal mask with the last query and key, and torch with the first ones.
    square = not inputs.causal or inputs.query.shape[-2] == inputs.key.shape[-2]
    # On these cards, the backward pass does not support large heads.
    small_card = (8, 6) <= inputs.capability <= (8, 9) or inputs.capability >= (12, 0)
    no_backward = inputs.trains and small_card and (192 < inputs.head <= 224 or (inputs.head > 224 and inputs.dropout))
    return inputs.capability >= (8, 0) and inputs.query.dtype in _HALF and heads and square and not no_backward


def _efficient(inputs: Inputs) -> bool:
    allowed = torch.backends.cuda.mem_efficient_sdp_enabled() and _fits(inputs) and inputs.same_heads
    alignment = 8 if inputs.query.dtype in _HALF else 4
    sizes = all(size % alignment == 0 for size in (inputs.head, inputs.value.shape[-1]))
    dtypes = (*_HALF, torch.float32) if inputs.capability >= (8, 0) else (torch.float16, torch.float32)
    return allowed and sizes and inputs.head == inputs.key.shape[-1] and inputs.query.dtype in dtypes


_POSSIBLE: dict[str, Callable[[Inputs], bool]] = {CUDNN: _cudnn, FLASH: _flash, EFFICIENT: _efficient}


def _run(kernel: str, inputs: Inputs, scale: float | None, enable_gqa: bool) -> torch.Tensor:
    """Call a kernel's operator as torch's ``attention.cpp`` does."""
    ops = torch.ops.aten
    query, key, value, dropout, causal = inputs.query, inputs.key, inputs.value, inputs.dropout, inputs.causal
    mask = inputs.mask
    if mask is not None and mask.dtype == torch.bool:  # the operators get a mask that is added to the scores
        # torch uses the lowest float16 number because of a problem of cuDNN with -inf.
        out = -65504.0 if kernel == CUDNN else float("-inf")
        zero, low = (torch.scalar_tensor(value, dtype=query.dtype, device=mask.device) for value in (0.0, out))
        mask = torch.where(mask, zero, low)
    if kernel == CUDNN:
        op = ops._scaled_dot_product_cudnn_attention.default
        return op(query, key, value, mask, inputs.trains, dropout, causal, False, scale=scale)[0]
    if kernel == FLASH:
        # The kernel needs a head size that is a multiple of 8. The padding must not change the scale.
        missing = -inputs.head % 8
        padded = [torch.nn.functional.pad(t, (0, missing)) if missing else t for t in (query, key, value)]
        scale = scale if scale is not None else inputs.head**-0.5
        op = ops._scaled_dot_product_flash_attention.default
        output = op(*padded, dropout, causal, False, scale=scale)[0]
        return output[..., : inputs.head] if output.shape[-1] != inputs.head else output
    if kernel == EFFICIENT:
        if mask is not None:
            mask = _aligned(mask, query, key)
        op = ops._scaled_dot_product_efficient_attention.default
        return op(query, key, value, mask, inputs.trains, dropout, causal, scale=scale)[0]
    op = ops._scaled_dot_product_attention_math.default
    return op(query, key, value, mask, dropout, causal, None, scale=scale, enable_gqa=enable_gqa)[0]


def _aligned(mask: torch.Tensor, query: torch.Tensor, key: torch.Tensor) -> torch.Tensor:
    """Align a mask as torch's ``preprocess_mask`` does: pad its rows to a multiple of 16 elements, take a view of the
    original size, and expand the view to every head.
    """
    length = mask.shape[-1]
    if length % 16:
        mask = torch.nn.functional.pad(mask, (0, 16 - length % 16))[..., :length]
    return mask.expand(query.shape[0], query.shape[1], query.shape[2], key.shape[2])
