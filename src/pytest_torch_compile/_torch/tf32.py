"""TF32, a format with ten mantissa bits to which a GPU may round the operands of products in float32.

Two correct runs may compute the same product with different kernels: with TF32 operands that are rounded, with TF32
operands that are truncated, or in float32. Measured on an H200, with torch 2.11:

- Matrix products, convolutions and the gradients of their inputs round or use float32. None of 9,200 truncated.
- Gradients of convolution weights round, truncate or use float32. 249 of 2,700 truncated.
- Depthwise convolutions and the gradients of their inputs use float32, in both memory formats.
- Triton's products truncate. Inductor uses them after autotuning, and in ``flex_attention``.

This module uses these private torch names, checked with torch 2.6, 2.8, 2.11 and 2.15: the positions of the arguments
of ``flex_attention``, of convolutions and of their backward; before torch 2.9, ``torch._C._set_cudnn_allow_tf32``. It
uses ``torch.backends.*.fp32_precision``, which is new in torch 2.9, and ``allow_tf32`` before. In newer versions,
``allow_tf32`` cannot be read if a user has set ``fp32_precision`` for only some of the ops.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum
from typing import Any, Literal

import torch

from .dispatch_mode import name_in_torch

Setting = Literal["conv", "matmul"]
# What to tell a user who wants to turn TF32 off.
HOW_TO_TURN_OFF: dict[Setting, str] = {
    "conv": "set torch.backends.cudnn.allow_tf32 = False",
    "matmul": "call torch.set_float32_matmul_precision('highest')",
}
# A kernel that truncates makes products too small by this much for each operand, and these errors do not cancel in a
# sum. Measured on an H100 and an H200: sums of products are too small by 7.0e-4 to 7.5e-4.
TRUNCATION = 3.75e-4
# The positions of the operands of products among an op's arguments. Other arguments, such as a bias, are used in
# float32.
_OPERANDS = {
    **dict.fromkeys(("mm", "bmm", "convolution", "_convolution"), (0, 1)),
    **dict.fromkeys(("addmm", "baddbmm", "addmm_", "baddbmm_"), (1, 2)),
    "flex_attention": (0, 1, 2),
    "flex_attention_backward": (0, 1, 2, 5),
}
# The results of attention that are products with an operand that exists only inside the op: the output, and the
# gradients of the query, the key and the value.
_OF_INNER_OPERANDS = {"flex_attention": (0,), "flex_attention_backward": (0, 1, 2)}
# The number of arguments of ``convolution_backward``, which are all positional.
_BACKWARD_ARGUMENTS = 11
# The types of devices that have TF32.
DEVICES = ("cuda",)
# The bits of a float32 number that a TF32 number keeps, and half of the lowest of them.
_KEPT = -0x2000
_HALF = 0x1000


class Kernel(Enum):
    """How a kernel treats the operands of products."""

    ROUNDS = "rounds"
    TRUNCATES = "truncates"
    FLOAT32 = "float32"


class Products:
    """The kernels that compute the products of one run, where TF32 is allowed. With ``may_truncate``, all of them may
    truncate their operands.

    The same op with operands of the same shapes always uses the same kernel, and a kernel always rounds a number in the
    same way. Therefore, errors of related products cancel, as they do on the GPU. For example, the variance
    ``E[x * x] - E[x] ** 2`` of a window uses the same weights twice.
    """

    def __init__(self, seed: int, *, may_truncate: bool = True) -> None:
        self._seed = seed
        self._may_truncate = may_truncate

    def run(self, func: Any, args: Any, kwargs: Any) -> Any:
        """Call an op. If it may use TF32, compute its products with one of the kernels."""
        name = name_in_torch(func)
        if name == "convolution_backward" and len(args) == _BACKWARD_ARGUMENTS and _may_be_tf32(args[0]):
            return self._gradients(func, args, kwargs)
        if name in ("convolution", "_convolution") and len(args) > 8 and _is_depthwise(args[0], groups=args[8]):
            return func(*args, **kwargs)
        return self._product(func, args, kwargs, _OPERANDS.get(name, ()), may_truncate=name in _OF_INNER_OPERANDS)

    def _gradients(self, func: Any, args: Any, kwargs: Any) -> list[torch.Tensor | None]:
        """Return the gradients of a convolution's input, weight and bias. Each is computed by a different kernel. The
        gradient of the bias is a sum, not a product.
        """
        gradient, inputs, wanted = args[0], args[1], args[10]
        found: list[torch.Tensor | None] = [None, None, None]
        for place, operands in enumerate(((0, 2), (0, 1))):
            if wanted[place]:
                only = (*args[:10], [place == 0, place == 1, False])
                exact = place == 0 and _is_depthwise(inputs, groups=args[9])
                used = () if exact else operands
                found[place] = self._product(func, only, kwargs, used, may_truncate=place == 1)[place]
        if wanted[2]:
            found[2] = gradient.sum([dim for dim in range(gradient.dim()) if dim != 1])
        return found

    def _product(self, func: Any, args: Any, kwargs: Any, operands: tuple[int, ...], *, may_truncate: bool) -> Any:
        """Call an op, and round those of its arguments that are operands. ``operands`` contains their positions."""
        name = name_in_torch(func)
        setting: Setting = "conv" if "convolution" in name else "matmul"
        operands = tuple(place for place in operands if place < len(args) and _may_be_tf32(args[place]))
        if not operands or not is_allowed(setting):
            return func(*args, **kwargs)
        kernel = self.kernel(name, [tuple(args[place].shape) for place in operands], may_truncate=may_truncate)
        if kernel is Kernel.FLOAT32:
            with turned_off(setting):
                return func(*args, **kwargs)
        converted = list(args)
        for place in operands:
            converted[place] = rounded(args[place]) if kernel is Kernel.ROUNDS else truncated(args[place])
        result = func(*converted, **kwargs)
        if kernel is Kernel.TRUNCATES:
            for place in _OF_INNER_OPERANDS.get(name, ()):
                result[place].mul_(1 - TRUNCATION)
        return result

    def kernel(self, name: str, shapes: list[tuple[int, ...]], *, may_truncate: bool = False) -> Kernel:
        """Return the kernel for an op and the shapes of its operands.

        In runs 1, 5, 9 and so on, all kernels truncate, or round if they cannot truncate. All kernels compute in
        float32 in run 3, and round in run 7, and so on in turn. In the other runs, each kernel is drawn.
        """
        may_truncate = may_truncate or self._may_truncate
        if self._seed % 4 == 1:
            return Kernel.TRUNCATES if may_truncate else Kernel.ROUNDS
        if self._seed % 4 == 3:
            return Kernel.FLOAT32 if self._seed % 8 == 3 else Kernel.ROUNDS
        kernels = list(Kernel) if may_truncate else [Kernel.ROUNDS, Kernel.FLOAT32]
        return random.Random(f"{self._seed} {name} {shapes}").choice(kernels)


def _is_depthwise(inputs: torch.Tensor, groups: int) -> bool:
    """Return whether a convolution has a group for each channel of its input."""
    return groups > 1 and groups == inputs.shape[1]


def is_allowed(setting: Setting) -> bool:
    """Return whether torch's settings allow TF32 for convolutions or for matrix products on a CUDA device."""
    return _read(setting) in (True, "tf32")


@contextmanager
def turned_off(setting: Setting) -> Iterator[None]:
    """Compute convolutions or matrix products in float32 inside the ``with`` block."""
    before = _read(setting)
    precision = torch.get_float32_matmul_precision() if before is True and setting == "matmul" else None
    _write(setting, "ieee" if isinstance(before, str) else False)
    try:
        yield
    finally:
        if isinstance(before, str):
            _write(setting, "none")  # inherits the setting of all ops, as it may have done before
        if _read(setting) != before:
            _write(setting, before)
        if precision is not None:  # allow_tf32 = True sets "high", also if the precision was "medium"
            torch.set_float32_matmul_precision(precision)


def rounded(tensor: torch.Tensor) -> torch.Tensor:
    """Return a float32 tensor whose numbers are rounded to the nearest TF32 numbers."""
    return _with_bits(tensor, tensor.view(torch.int32).add(_HALF).bitwise_and_(_KEPT))


def truncated(tensor: torch.Tensor) -> torch.Tensor:
    """Return a float32 tensor whose numbers are rounded towards zero to TF32 numbers."""
    return _with_bits(tensor, tensor.view(torch.int32).bitwise_and(_KEPT))


def _with_bits(tensor: torch.Tensor, bits: torch.Tensor) -> torch.Tensor:
    """Return the numbers with these bits. Infinity and NaN stay: with fewer bits, a NaN could become infinite. The
    largest numbers also stay, because masks contain them, and they would become infinite.
    """
    numbers = bits.view(torch.float32)
    return torch.where(tensor.isfinite() & numbers.isfinite(), numbers, tensor)


def _may_be_tf32(operand: Any) -> bool:
    """Return whether a kernel may round this operand. The class of a subclass may not support the ops that round."""
    if type(operand) not in (torch.Tensor, torch.nn.Parameter) or operand.dtype is not torch.float32:
        return False
    return operand.device.type in DEVICES and operand.layout is torch.strided


def _settings(setting: Setting) -> Any:
    if setting == "matmul":
        return torch.backends.cuda.matmul
    return torch.backends.cudnn.conv if _is_newer() else torch.backends.cudnn


def _read(setting: Setting) -> Any:
    """Return torch's setting: True or False before torch 2.9, and else "tf32", "ieee" or "none"."""
    return _settings(setting).fp32_precision if _is_newer() else _settings(setting).allow_tf32


def _write(setting: Setting, value: Any) -> None:
    if _is_newer():
        _settings(setting).fp32_precision = value
    elif setting == "conv":
        torch._C._set_cudnn_allow_tf32(value)  # torch.backends.cudnn.allow_tf32 can be frozen
    else:
        torch.backends.cuda.matmul.allow_tf32 = value


def _is_newer() -> bool:
    return hasattr(torch.backends, "fp32_precision")
