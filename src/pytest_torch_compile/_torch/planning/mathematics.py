"""Mathematical functions of Triton's language and of CUDA's math library, for blocks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from .block import Block, aligned, promoted


def _of_floats(function: Callable[..., torch.Tensor]) -> Callable[..., Block]:
    """Wrap a function of CUDA's math library, so that integer arguments are converted to float32."""

    def computed(*values: Any) -> Block:
        tensors, dtype = promoted(*values)
        if not dtype.is_floating():
            tensors = [tensor.float() for tensor in tensors]
        return Block(function(*tensors))

    return computed


def _keeping(function: Callable[..., torch.Tensor]) -> Callable[..., Block]:
    def computed(*values: Any, **_: Any) -> Block:
        tensors, dtype = promoted(*values)
        return Block(function(*tensors), dtype)

    return computed


def _larger(with_nan: Callable[..., torch.Tensor], without: Callable[..., torch.Tensor]) -> Callable[..., Block]:
    """Implement ``tl.maximum`` or ``tl.minimum``. If exactly one operand is NaN, the result is NaN only if
    ``propagate_nan`` is set.
    """

    def computed(left: Any, right: Any, propagate_nan: bool = False, **_: Any) -> Block:
        (one, other), dtype = promoted(left, right)
        return Block((with_nan if propagate_nan else without)(one, other), dtype)

    return computed


def _bits(function: Callable[..., torch.Tensor]) -> Callable[..., Block]:
    return lambda value: Block(function(aligned(value)[0]).to(torch.int32))


def _fma(one: torch.Tensor, other: torch.Tensor, third: torch.Tensor) -> torch.Tensor:
    """Compute a fused multiply-add that rounds only once. For float32 and narrower types, compute in float64."""
    if one.dtype == torch.float64 or not one.is_floating_point():
        return one * other + third
    return (one.double() * other.double() + third.double()).to(one.dtype)


# Mathematical functions by their names in ``libdevice`` and ``triton.language.math``. If torch has a function of the
# same name, that function is used.
_UNARY = (
    "exp exp2 expm1 log log2 log10 log1p sqrt rsqrt sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh erf "
    "erfc erfinv ceil floor trunc lgamma"
)
MATHEMATICS: dict[str, Any] = {
    **{name: _of_floats(getattr(torch, name)) for name in _UNARY.split()},
    **{name: _of_floats(getattr(torch, name)) for name in ("atan2", "fmod", "hypot", "nextafter", "copysign")},
    "pow": _of_floats(torch.pow),
    "sqrt_rn": _of_floats(torch.sqrt),
    "div_rn": _of_floats(torch.div),
    "fdiv": _of_floats(torch.div),
    "rint": _of_floats(torch.round),
    "nearbyint": _of_floats(torch.round),
    "llrint": lambda value: Block(torch.round(aligned(value)[0]).long()),
    "fast_expf": _of_floats(torch.exp),
    "fast_dividef": _of_floats(torch.div),
    "abs": _keeping(lambda x: x if x.dtype == torch.bool else torch.abs(x)),
    "fabs": _keeping(torch.abs),
    "fma": _keeping(_fma),
    "maximum": _larger(torch.maximum, torch.fmax),
    "minimum": _larger(torch.minimum, torch.fmin),
    "fmax": _keeping(torch.fmax),
    "fmin": _keeping(torch.fmin),
    "clamp": _keeping(lambda x, low, high: torch.minimum(torch.maximum(x, low), high)),
    "sigmoid": _of_floats(torch.sigmoid),
    "isnan": _bits(torch.isnan),
    "isinf": _bits(torch.isinf),
    "isfinited": _bits(torch.isfinite),
    "finitef": _bits(torch.isfinite),
    "signbit": _bits(torch.signbit),
    "j0": _of_floats(torch.special.bessel_j0),
    "j1": _of_floats(torch.special.bessel_j1),
    "y0": _of_floats(torch.special.bessel_y0),
    "y1": _of_floats(torch.special.bessel_y1),
    "cyl_bessel_i0": _of_floats(torch.special.i0),
    "cyl_bessel_i1": _of_floats(torch.special.i1),
}
