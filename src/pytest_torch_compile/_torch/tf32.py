"""TF32, a format with ten mantissa bits to which a GPU may round the operands of products in float32.

Two correct runs may compute the same product with different kernels: with TF32 operands that are rounded, with TF32
operands that are truncated, or in float32. cuBLAS and cuDNN's forward convolutions round; Triton's products and some of
cuDNN's weight gradients truncate.

This module uses ``torch.backends.*.fp32_precision``, which is new in torch 2.9, and ``allow_tf32`` before. In newer
versions, ``allow_tf32`` cannot be read if a user has set ``fp32_precision`` for only some of the ops.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum
from typing import Any, Literal

import torch
from torch.utils._pytree import tree_leaves, tree_map_only

from .dispatch_mode import is_higher_order
from .sum_errors import PRODUCTS

Setting = Literal["conv", "matmul"]
# A kernel that truncates makes products too small by this much for each operand, and these errors do not cancel in a
# sum. Measured on an H100 and an H200: sums of products are too small by 7.0e-4 to 7.5e-4.
TRUNCATION = 3.75e-4
# The arguments of higher-order ops that are not operands of products. For the backward of ``flex_attention``, these are
# the results of the forward, the logarithms of the sums in the softmax, and the gradients of these logarithms.
IN_FLOAT32 = {"flex_attention_backward": (3, 4, 6)}
# The bits of a float32 number that a TF32 number keeps, and half of the lowest of them.
_KEPT = -0x2000
_HALF = 0x1000


class Kernel(Enum):
    """How a kernel treats the operands of products."""

    ROUNDS = "rounds"
    TRUNCATES = "truncates"
    FLOAT32 = "float32"


class Products:
    """The kernels that compute the products of one run, where TF32 is allowed.

    The same op with operands of the same shapes always uses the same kernel, and a kernel always rounds a number in the
    same way. Therefore, errors of related products cancel, as they do on the GPU. For example, the variance
    ``E[x * x] - E[x] ** 2`` of a window uses the same weights twice.
    """

    def __init__(self, seed: int) -> None:
        self._seed = seed

    def run(self, func: Any, args: Any, kwargs: Any) -> Any:
        """Call an op. If it may use TF32, compute its products with one of the kernels."""
        setting = _setting_of(func)
        if setting is None or not is_allowed(setting) or not any(map(_may_be_tf32, tree_leaves(args))):
            return func(*args, **kwargs)
        kernel = self.kernel(func, args)
        if kernel is Kernel.FLOAT32:
            with turned_off(setting):
                return func(*args, **kwargs)
        convert = rounded if kernel is Kernel.ROUNDS else truncated
        operands = tree_map_only(torch.Tensor, lambda one: convert(one) if _may_be_tf32(one) else one, list(args))
        for position in IN_FLOAT32.get(_name(func), ()):
            operands[position] = args[position]
        result = func(*operands, **kwargs)
        if is_higher_order(func) and kernel is Kernel.TRUNCATES:
            # Attention multiplies two matrices, and the first operand of the second product exists only inside the op.
            for tensor in filter(_may_be_tf32, tree_leaves(result)):
                tensor.mul_(1 - TRUNCATION)
        if func is torch.ops.aten.convolution_backward.default and result[2] is not None:
            # The gradient of the bias is a sum, not a product.
            gradient = args[0]
            result[2].copy_(gradient.sum([dim for dim in range(gradient.dim()) if dim != 1]))
        return result

    def kernel(self, func: Any, args: Any) -> Kernel:
        """Return the kernel of an op: the same kernel for all ops in every second run, and otherwise at random."""
        if self._seed % 4 == 1:
            return Kernel.TRUNCATES
        if self._seed % 4 == 3:
            return Kernel.FLOAT32 if self._seed % 8 == 3 else Kernel.ROUNDS
        shapes = [tuple(leaf.shape) for leaf in tree_leaves(args) if isinstance(leaf, torch.Tensor)]
        return random.Random(f"{self._seed} {func} {shapes}").choice(list(Kernel))


def is_allowed(setting: Setting) -> bool:
    """Return whether torch's settings allow TF32 for convolutions or for matrix products on a CUDA device."""
    owner, name = _place_of(setting)
    return getattr(owner, name) in (True, "tf32")


@contextmanager
def turned_off(setting: Setting) -> Iterator[None]:
    """Compute convolutions or matrix products in float32 inside the ``with`` block."""
    owner, name = _place_of(setting)
    before = getattr(owner, name)
    precision = torch.get_float32_matmul_precision() if before is True and setting == "matmul" else None
    setattr(owner, name, "ieee" if isinstance(before, str) else False)
    try:
        yield
    finally:
        setattr(owner, name, before)
        if precision is not None:  # allow_tf32 = True sets "high", also if the precision was "medium"
            torch.set_float32_matmul_precision(precision)


def rounded(tensor: torch.Tensor) -> torch.Tensor:
    """Return a float32 tensor whose numbers are rounded to the nearest TF32 numbers."""
    return _with_bits(tensor, tensor.view(torch.int32).add(_HALF).bitwise_and_(_KEPT))


def truncated(tensor: torch.Tensor) -> torch.Tensor:
    """Return a float32 tensor whose numbers are rounded towards zero to TF32 numbers."""
    return _with_bits(tensor, tensor.view(torch.int32).bitwise_and(_KEPT))


def _with_bits(tensor: torch.Tensor, bits: torch.Tensor) -> torch.Tensor:
    """Return the numbers with these bits. Infinity and NaN stay: with fewer bits, a NaN could become infinite."""
    return torch.where(tensor.isfinite(), bits.view(torch.float32), tensor)


def _setting_of(func: Any) -> Setting | None:
    """Return the setting that allows TF32 for an op, or None if the op computes no products."""
    if "convolution" in _name(func):
        return "conv"
    return "matmul" if _name(func) in PRODUCTS or is_higher_order(func) else None


def _name(func: Any) -> str:
    return str(func.__name__ if is_higher_order(func) else func.overloadpacket.__name__)


def _may_be_tf32(operand: Any) -> bool:
    """Return whether a kernel may round this operand. A bias has one dimension and is added in float32."""
    if not isinstance(operand, torch.Tensor) or operand.dtype is not torch.float32 or operand.dim() < 2:
        return False
    return operand.is_cuda and operand.layout is torch.strided


def _place_of(setting: Setting) -> tuple[Any, str]:
    if hasattr(torch.backends, "fp32_precision"):
        return (torch.backends.cudnn.conv if setting == "conv" else torch.backends.cuda.matmul), "fp32_precision"
    return (torch.backends.cudnn if setting == "conv" else torch.backends.cuda.matmul), "allow_tf32"
