"""The values of one variable in a kernel. A ``Block`` follows Triton's rules for dtypes, type promotion and arithmetic.

A ``Block`` contains the values of one variable in all programs that run together, in a tensor whose first dimension
enumerates the programs.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch


class NotInterpreted(Exception):
    """Raised when part of a kernel cannot run on the CPU; the message describes this part."""


@dataclass(frozen=True)
class DType:
    """A Triton dtype, and the torch dtype in which its values are stored."""

    name: str
    holds: torch.dtype

    def is_floating(self) -> bool:
        """Return whether this is a floating-point type. Triton's dtypes have a method with this name, which Inductor's
        helper functions call.
        """
        return bool(self.holds.is_floating_point)

    def is_int(self) -> bool:
        """Return whether this is an integer type or a boolean."""
        return not self.holds.is_floating_point

    @property
    def primitive_bitwidth(self) -> int:
        """The number of bits per value."""
        return 1 if self.name == "int1" else int("".join(filter(str.isdigit, self.name.split("e")[0])))

    @property
    def scalar(self) -> DType:
        """The dtype of an element, which is this dtype itself."""
        return self


TYPES = {
    **{name: DType(name, getattr(torch, name)) for name in ("int8", "int16", "int32", "int64", "uint8")},
    **{name: DType(name, getattr(torch, name)) for name in ("float16", "bfloat16", "float32", "float64")},
    "int1": DType("int1", torch.bool),
    "uint32": DType("uint32", torch.int64),  # torch has few operations for uint32, so values are stored in 64 bits
}
OF_TORCH = {one.holds: one for name, one in TYPES.items() if name != "uint32"}
INT1, INT32, INT64, FLOAT32 = TYPES["int1"], TYPES["int32"], TYPES["int64"], TYPES["float32"]


class Block:
    """The values of a variable in all programs that run together. The first dimension of ``data`` has one entry per
    program, or a single entry for all programs; the other dimensions are the block's shape.
    """

    def __init__(self, data: torch.Tensor, dtype: DType | None = None) -> None:
        if dtype is None and data.dtype not in OF_TORCH:
            raise NotInterpreted(f"values of type {data.dtype}")
        self.dtype = dtype or OF_TORCH[data.dtype]
        self.data = (data & 0xFFFFFFFF) if self.dtype.name == "uint32" else data

    @property
    def shape(self) -> list[int]:
        """The block's shape in one program."""
        return list(self.data.shape[1:])

    @property
    def type(self) -> DType:
        """The type of the values."""
        return self.dtype

    def to(self, dtype: DType, bitcast: bool = False, **_: Any) -> Block:
        """Convert the values to another type, or reinterpret their bits as another type."""
        if bitcast and dtype.holds.itemsize == self.data.dtype.itemsize:
            return Block(self.data.view(dtype.holds), dtype)
        if bitcast:
            raise NotInterpreted(f"a bitcast of {self.dtype.name} to {dtype.name}")
        return Block(self.data.to(dtype.holds), dtype)

    def reshape(self, *shape: Any) -> Block:
        """Reshape the block as ``tl.reshape`` does."""
        return Block(self.data.reshape(self.data.shape[0], *shape_of(shape)), self.dtype)

    def __getitem__(self, index: Any) -> Block:
        parts = index if isinstance(index, tuple) else (index,)
        places = (slice(None), *parts)
        return Block(self.data[places], self.dtype)

    def _one(self) -> Any:
        if self.data.numel() != 1:
            raise NotInterpreted("control flow that depends on the program id or on data")
        return self.data.item()

    def __bool__(self) -> bool:
        return bool(self._one())

    def __index__(self) -> int:
        return int(self._one())

    def __neg__(self) -> Block:
        return Block(-self.data, self.dtype)

    def __invert__(self) -> Block:
        return Block(~self.data, self.dtype)

    __hash__ = object.__hash__


def shape_of(shape: Any) -> list[int]:
    parts = shape[0] if len(shape) == 1 and isinstance(shape[0], (list, tuple)) else shape
    return [int(part) for part in parts]


def aligned(*values: Any) -> list[torch.Tensor]:
    """Return the values' tensors, reshaped to the same number of dimensions. Missing dimensions are inserted after the
    first dimension, which enumerates the programs.
    """
    tensors = [value.data if isinstance(value, Block) else torch.tensor([value], device="cpu") for value in values]
    most = max(tensor.ndim for tensor in tensors)
    return [t.reshape(t.shape[0], *[1] * (most - t.ndim), *t.shape[1:]) for t in tensors]


def common(*values: Any) -> DType:
    """Return the type to which Triton promotes the values. A Python number does not change the blocks' type, with two
    exceptions. A float promotes integers to float32. An integer promotes booleans to int32, and an integer that needs
    64 bits promotes booleans and int32 to int64.
    """
    found = [value.dtype for value in values if isinstance(value, Block)]
    result = found[0] if found else (FLOAT32 if any(isinstance(one, float) for one in values) else INT32)
    for dtype in found[1:]:
        if dtype != result:
            result = (
                TYPES["uint32"]
                if "uint32" in (dtype.name, result.name)
                and all(one.is_int() and one.primitive_bitwidth <= 32 for one in (dtype, result))
                else OF_TORCH[torch.promote_types(dtype.holds, result.holds)]
            )
    for value in values:
        if isinstance(value, float) and not result.is_floating():
            result = FLOAT32
        elif isinstance(value, int) and not isinstance(value, bool) and result.is_int():
            wide = INT32 if -(2**31) <= value < 2**31 else INT64
            result = result if result.primitive_bitwidth > 1 and result.name != "int32" else wide
    return result


def promoted(*values: Any) -> tuple[list[torch.Tensor], DType]:
    """Return the tensors of the values, converted to their common type."""
    dtype = common(*values)
    return [tensor.to(dtype.holds) for tensor in aligned(*values)], dtype


def _binary(function: Callable[..., torch.Tensor], *, compares: bool = False) -> Callable[[Any, Any], Any]:
    def combined(left: Any, right: Any) -> Any:
        if not isinstance(
            right, (Block, torch.Tensor, int, float)
        ):  # a Pointer on the right-hand side implements the addition
            return NotImplemented
        (one, other), dtype = promoted(left, right)
        return Block(function(one, other), INT1 if compares else dtype)

    return combined


def _divided(left: Any, right: Any) -> Block:
    """Compute true division; integers and 16-bit floats are divided in float32."""
    (one, other), dtype = promoted(left, right)
    wide = dtype.holds if dtype.name in ("float32", "float64") else torch.float32
    return Block(one.to(wide) / other.to(wide))


def _divisor(one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """Return the divisor, with 1 in place of 0 if torch would raise an exception for a division of integers by 0."""
    return other if one.is_floating_point() else torch.where(other == 0, torch.ones_like(other), other)


_ARITHMETIC: dict[str, Callable[..., torch.Tensor]] = {
    "add": operator.add,
    "sub": lambda one, other: one ^ other if one.dtype == torch.bool else one - other,
    "mul": operator.mul,
    # As in C, the quotient is rounded towards zero, and a remainder has the sign of the dividend.
    "floordiv": lambda one, other: torch.div(one, _divisor(one, other), rounding_mode="trunc"),
    "mod": lambda one, other: torch.fmod(one, _divisor(one, other)),
    "and": operator.and_,
    "or": operator.or_,
    "xor": operator.xor,
    "lshift": operator.lshift,
    "rshift": operator.rshift,
}


def _reversed(function: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    return lambda self, other: function(other, self)


for _name, _function in _ARITHMETIC.items():
    setattr(Block, f"__{_name}__", _binary(_function))
    setattr(Block, f"__r{_name}__", _reversed(_binary(_function)))
for _name in ("lt", "le", "gt", "ge", "eq", "ne"):
    setattr(Block, f"__{_name}__", _binary(getattr(operator, _name), compares=True))
setattr(Block, "__truediv__", _divided)  # noqa: B010
setattr(Block, "__rtruediv__", _reversed(_divided))  # noqa: B010
