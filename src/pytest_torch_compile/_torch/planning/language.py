"""Implement on the CPU the parts of Triton's language that Inductor's generated kernels use.

All programs of a launch run at once. A ``Block`` contains the values of one variable in every program, in a tensor
whose first dimension enumerates the programs. So a kernel needs only about as many tensor operations as it has lines.
Triton's own interpreter runs the programs one after another, truncates bfloat16 in some versions, and has no
``libdevice``.

Types are promoted as in Triton. Each load and store is checked against the bounds of its tensor's storage. Lanes that a
mask excludes contain NaN or large integers, because their values are undefined on a GPU. A function that is not
implemented here raises ``NotInterpreted`` with the function's name.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import torch


class NotInterpreted(Exception):
    """Raised if part of a kernel cannot run on the CPU; the message describes this part."""


@dataclass(frozen=True)
class DType:
    """A Triton dtype, and the torch dtype in which its values are stored."""

    name: str
    holds: torch.dtype

    def is_floating(self) -> bool:
        """Return whether this is a floating-point type. Named as in Triton, because Inductor's helpers call the
        method.
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
    """The values of a variable in every program. The first dimension of ``data`` has one entry per program, or a single
    entry for all programs; the other dimensions are the block's shape.
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
        """Convert the values, or read their bits as another type."""
        if bitcast and dtype.holds.itemsize == self.data.dtype.itemsize:
            return Block(self.data.view(dtype.holds), dtype)
        if bitcast:
            raise NotInterpreted(f"a bitcast of {self.dtype.name} to {dtype.name}")
        return Block(self.data.to(dtype.holds), dtype)

    def reshape(self, *shape: Any) -> Block:
        """Reshape the block as ``tl.reshape`` does."""
        return Block(self.data.reshape(self.data.shape[0], *_shape(shape)), self.dtype)

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


def aligned(*values: Any) -> list[torch.Tensor]:
    """Return the values' tensors, reshaped to have equally many dimensions. Missing dimensions are inserted after the
    first dimension, which enumerates the programs.
    """
    tensors = [value.data if isinstance(value, Block) else torch.tensor([value], device="cpu") for value in values]
    most = max(tensor.ndim for tensor in tensors)
    return [t.reshape(t.shape[0], *[1] * (most - t.ndim), *t.shape[1:]) for t in tensors]


def common(*values: Any) -> DType:
    """Return the type to which Triton promotes the values. Python numbers take the blocks' type if this type can
    represent them.
    """
    found = [value.dtype for value in values if isinstance(value, Block)]
    result = found[0] if found else (FLOAT32 if any(isinstance(one, float) for one in values) else INT32)
    for dtype in found[1:]:
        if dtype != result:
            result = (
                TYPES["uint32"]
                if "uint32" in (dtype.name, result.name) and _small(dtype, result)
                else _of(torch.promote_types(dtype.holds, result.holds))
            )
    for value in values:
        if isinstance(value, float) and not result.is_floating():
            result = FLOAT32
        elif isinstance(value, int) and not isinstance(value, bool) and result.is_int():
            wide = INT32 if -(2**31) <= value < 2**31 else INT64
            result = result if result.primitive_bitwidth > 1 and result.name != "int32" else wide
    return result


def _small(*dtypes: DType) -> bool:
    return all(dtype.is_int() and dtype.primitive_bitwidth <= 32 for dtype in dtypes)


def _of(dtype: torch.dtype) -> DType:
    return OF_TORCH[dtype]


def promoted(*values: Any) -> tuple[list[torch.Tensor], DType]:
    """Return the tensors of the values, converted to their common type."""
    dtype = common(*values)
    return [tensor.to(dtype.holds) for tensor in aligned(*values)], dtype


def _binary(function: Callable[..., torch.Tensor], *, compares: bool = False) -> Callable[[Any, Any], Any]:
    def combined(left: Any, right: Any) -> Any:
        if isinstance(right, Pointer):
            return NotImplemented
        (one, other), dtype = promoted(left, right)
        return Block(function(one, other), INT1 if compares else dtype)

    return combined


def _divided(left: Any, right: Any) -> Block:
    """Compute true division; integers and 16-bit floats are divided in float32."""
    (one, other), dtype = promoted(left, right)
    wide = dtype.holds if dtype.name in ("float32", "float64") else torch.float32
    return Block(one.to(wide) / other.to(wide))


def _quotient(one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """Compute integer division as in C, without raising an exception for lanes whose divisor is 0."""
    if not one.is_floating_point():
        other = torch.where(other == 0, torch.ones_like(other), other)
    return torch.div(one, other, rounding_mode="trunc")


def _remainder(one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    if not one.is_floating_point():
        other = torch.where(other == 0, torch.ones_like(other), other)
    return torch.fmod(one, other)


_ARITHMETIC: dict[str, Callable[..., torch.Tensor]] = {
    "add": operator.add,
    "sub": lambda one, other: one ^ other if one.dtype == torch.bool else one - other,
    "mul": operator.mul,
    "floordiv": _quotient,
    "mod": _remainder,
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


@dataclass
class Launch:
    """The state of one launch: the ids of its programs, and the faults found so far."""

    ids: Sequence[torch.Tensor] = ()
    grid: Sequence[int] = ()
    faults: list[str] = field(default_factory=list)

    def note(self, fault: str) -> None:
        """Add a fault, unless the same fault was added before."""
        if fault not in self.faults:
            self.faults.append(fault)


class Pointer:
    """A pointer to elements of a tensor. ``offset`` is the distance from the tensor's first element, in elements."""

    def __init__(self, name: str, tensor: torch.Tensor, offset: Any = 0) -> None:
        self.name, self.tensor, self.offset = name, tensor, offset
        self.dtype = SimpleNamespace(element_ty=OF_TORCH.get(tensor.dtype), is_ptr=lambda: True)

    def __add__(self, offset: Any) -> Pointer:
        return Pointer(self.name, self.tensor, offset if isinstance(self.offset, int) else self.offset + offset)

    __radd__ = __add__

    def places(self, mask: Any, launch: Launch, verb: str) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor | None]:
        """Return the storage as a flat tensor, each lane's index in this tensor, and a mask of the lanes that access
        memory. Indices outside the storage are recorded as faults and masked out.
        """
        storage = self.tensor.untyped_storage()
        size = storage.nbytes() // self.tensor.dtype.itemsize
        flat = torch.empty(0, dtype=self.tensor.dtype, device="cpu").set_(storage, 0, (size,), (1,))
        values = aligned(self.offset, True if mask is None else mask)
        index, active = torch.broadcast_tensors(values[0].long() + self.tensor.storage_offset(), values[1].bool())
        wrong = active & ((index < 0) | (index >= size))
        if wrong.any():
            first = int(index[wrong][0]) - self.tensor.storage_offset()
            launch.note(f"{verb} {self.name}[{first}], but the size of {self.name} is {self.tensor.numel()}")
        return flat, torch.where(active & ~wrong, index, 0), active & ~wrong


def _shape(shape: Any) -> list[int]:
    parts = shape[0] if len(shape) == 1 and isinstance(shape[0], (list, tuple)) else shape
    return [int(part) for part in parts]


def poison(tensor: torch.Tensor) -> torch.Tensor:
    """Fill a tensor with NaN, True or a large integer, depending on its dtype, to mark its values as undefined."""
    if tensor.dtype == torch.bool:
        return tensor.fill_(True)
    if tensor.is_floating_point() or tensor.is_complex():
        return tensor.fill_(float("nan"))
    return tensor.fill_(torch.iinfo(tensor.dtype).max // 3)


def language(launch: Launch) -> dict[str, Any]:
    """Return the names that ``triton.language`` defines, for one launch."""

    def load(pointer: Pointer, mask: Any = None, other: Any = None, *_: Any, **hints: Any) -> Block:
        if not isinstance(pointer, Pointer):
            raise NotInterpreted("a load from a block pointer or a descriptor")
        flat, index, active = pointer.places(mask, launch, "reads")
        values = flat[index] if flat.numel() else flat.new_zeros(index.shape)
        if active is not None and not active.all():
            outside = poison(torch.empty(1, dtype=flat.dtype, device="cpu"))
            if other is not None:
                outside = aligned(other, Block(values))[0].to(flat.dtype)
            values = torch.where(active, values, outside)
        return Block(values)

    def store(pointer: Pointer, value: Any, mask: Any = None, *_: Any, **hints: Any) -> None:
        if not isinstance(pointer, Pointer):
            raise NotInterpreted("a store to a block pointer or a descriptor")
        flat, index, active = pointer.places(mask, launch, "writes")
        shown, index, active = torch.broadcast_tensors(aligned(value, Block(index))[0], index, active)
        flat[index[active]] = shown[active].to(flat.dtype)

    def atomic_add(pointer: Pointer, value: Any, mask: Any = None, *_: Any, **hints: Any) -> Block:
        flat, index, active = pointer.places(mask, launch, "adds to")
        shown, index, active = torch.broadcast_tensors(aligned(value, Block(index))[0], index, active)
        before = flat[index].clone()
        flat.index_put_((index[active],), shown[active].to(flat.dtype), accumulate=True)
        return Block(before)

    def device_assert(condition: Any, message: str = "", mask: Any = None, **_: Any) -> None:
        holds, active = torch.broadcast_tensors(*aligned(condition, True if mask is None else mask))
        if not (holds | ~active.bool()).all():
            launch.note(f"fails a device assertion: {message}")

    names: dict[str, Any] = {**TYPES, **MATHEMATICS, **_SHAPES, **_REDUCTIONS}
    names |= {
        "tensor": Block,
        "PropagateNan": SimpleNamespace(ALL=True, NONE=False),
        "dtype": DType,
        "constexpr": lambda value: value,
        "constexpr_function": lambda function: function,
        "core": SimpleNamespace(constexpr=lambda value: value),
        "uint64": TYPES["int64"],
        "load": load,
        "store": store,
        "atomic_add": atomic_add,
        "device_assert": device_assert,
        "static_assert": lambda *_: None,
        "assume": lambda *_: None,
        "debug_barrier": lambda: None,
        "range": lambda *bounds, **_: range(*map(int, bounds)),
        "static_range": lambda *bounds, **_: range(*map(int, bounds)),
        "program_id": lambda axis: Block(launch.ids[axis]),
        "num_programs": lambda axis: Block(torch.tensor([launch.grid[axis]], dtype=torch.int32, device="cpu")),
    }
    return names


def _arange(start: int, end: int) -> Block:
    return Block(torch.arange(int(start), int(end), dtype=torch.int32, device="cpu")[None])


def _full(shape: Any, value: Any, dtype: DType) -> Block:
    (one,) = aligned(value)
    one = one.to(dtype.holds).reshape(one.shape[0], *[1] * len(shape))
    return Block(one.expand(one.shape[0], *_shape((shape,))), dtype)


def _broadcast_to(block: Any, *shape: Any) -> Block:
    sizes = _shape(shape)
    (one,) = aligned(block)
    one = one.reshape(one.shape[0], *[1] * (len(sizes) - one.ndim + 1), *one.shape[1:])
    return Block(one.expand(one.shape[0], *sizes), getattr(block, "dtype", None))


def _where(condition: Any, left: Any, right: Any) -> Block:
    (one, other), dtype = promoted(left, right)
    chosen, one, other = aligned(condition, Block(one, dtype), Block(other, dtype))
    return Block(torch.where(chosen.bool(), one, other), dtype)


def _expand_dims(block: Block, axis: int) -> Block:
    return Block(block.data.unsqueeze(axis + 1 if axis >= 0 else axis), block.dtype)


def _permute(block: Block, *dims: Any) -> Block:
    order = _shape(dims) if dims else [1, 0]
    return Block(block.data.permute(0, *[dim + 1 for dim in order]), block.dtype)


def _join(left: Block, right: Block) -> Block:
    one, other = torch.broadcast_tensors(*promoted(left, right)[0])
    return Block(torch.stack([one, other], -1))


_SHAPES: dict[str, Any] = {
    "arange": _arange,
    "full": _full,
    "zeros": lambda shape, dtype: _full(shape, 0, dtype),
    "zeros_like": lambda block: Block(torch.zeros_like(block.data), block.dtype),
    "broadcast_to": _broadcast_to,
    "where": _where,
    "expand_dims": _expand_dims,
    "reshape": lambda block, *shape, **_: block.reshape(*shape),
    "view": lambda block, *shape, **_: block.reshape(*shape),
    "ravel": lambda block, **_: block.reshape(-1),
    "permute": _permute,
    "trans": _permute,
    "join": _join,
    "split": lambda block: (Block(block.data[..., 0], block.dtype), Block(block.data[..., 1], block.dtype)),
    "cast": lambda block, dtype, bitcast=False, **_: block.to(dtype, bitcast),
    "cdiv": lambda one, other: (one + other - 1) // other,
    "multiple_of": lambda block, *_: block,
    "max_contiguous": lambda block, *_: block,
    "max_constancy": lambda block, *_: block,
}


def _tensors(value: Any) -> tuple[Block, ...]:
    return tuple(value) if isinstance(value, (tuple, list)) else (value,)


def _untupled(blocks: Sequence[Block], value: Any) -> Any:
    return tuple(blocks) if isinstance(value, (tuple, list)) else blocks[0]


def reduce(value: Any, axis: int | None, combine: Callable[..., Any], keep_dims: bool = False) -> Any:
    """Implement ``tl.reduce``: combine the two halves of a block until one element is left, as a GPU's threads do."""
    blocks = _tensors(value)
    if axis is None:
        blocks, axis = tuple(block.reshape(-1) for block in blocks), 0
    dim = axis % len(blocks[0].shape) + 1
    parts = [torch.broadcast_tensors(*[block.data for block in blocks])][0]
    current = [Block(part, block.dtype) for part, block in zip(parts, blocks, strict=True)]
    while (size := current[0].data.shape[dim]) > 1:
        half = size // 2
        first = [Block(block.data.narrow(dim, 0, half), block.dtype) for block in current]
        second = [Block(block.data.narrow(dim, half, half), block.dtype) for block in current]
        combined = _tensors(combine(*first, *second))
        rest = [block.data.narrow(dim, 2 * half, size - 2 * half) for block in current]
        current = [
            Block(torch.cat([new.data.expand_as(old.data), left.to(new.data.dtype)], dim), new.dtype)
            for new, old, left in zip(combined, first, rest, strict=True)
        ]
    result = current if keep_dims else [Block(block.data.squeeze(dim), block.dtype) for block in current]
    return _untupled(result, value)


def associative_scan(value: Any, axis: int, combine: Callable[..., Any], reverse: bool = False) -> Any:
    """Implement ``tl.associative_scan``: element ``n`` becomes the combination of elements ``0`` to ``n``."""
    blocks = _tensors(value)
    dim = axis % len(blocks[0].shape) + 1
    current = [Block(block.data.flip(dim) if reverse else block.data, block.dtype) for block in blocks]
    size, distance = current[0].data.shape[dim], 1
    while distance < size:
        earlier = [Block(block.data.narrow(dim, 0, size - distance), block.dtype) for block in current]
        later = [Block(block.data.narrow(dim, distance, size - distance), block.dtype) for block in current]
        combined = _tensors(combine(*earlier, *later))
        current = [
            Block(torch.cat([old.data.narrow(dim, 0, distance).to(new.data.dtype), new.data], dim), new.dtype)
            for old, new in zip(current, combined, strict=True)
        ]
        distance *= 2
    result = [Block(block.data.flip(dim) if reverse else block.data, block.dtype) for block in current]
    return _untupled(result, value)


def _sum(block: Block, axis: int | None = None, keep_dims: bool = False, dtype: DType | None = None) -> Block:
    """Implement ``tl.sum``: integers narrower than 32 bits are summed in int32, and all other values in their own
    type.
    """
    if dtype is None and block.dtype.is_int() and block.dtype.primitive_bitwidth < 32:
        dtype = INT32
    block = block.to(dtype) if dtype else block
    result: Block = reduce(block, axis, operator.add, keep_dims)
    return result


def _extreme(compare: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    def extreme(block: Block, axis: int | None = None, return_indices: bool = False, **options: Any) -> Any:
        if return_indices:
            raise NotInterpreted("the index of a maximum or minimum")
        keep = bool(options.get("keep_dims", False))
        return reduce(block, axis, lambda one, other: _where(compare(one, other), one, other), keep)

    return extreme


def _dot(left: Block, right: Block, acc: Block | None = None, *_: Any, **options: Any) -> Block:
    """Implement ``tl.dot``: 16-bit floats are multiplied exactly and summed in float32."""
    product = left.data.float() @ right.data.float()
    return Block(product if acc is None else product + acc.data)


_REDUCTIONS: dict[str, Any] = {
    "reduce": reduce,
    "associative_scan": associative_scan,
    "sum": _sum,
    "max": _extreme(operator.ge),
    "min": _extreme(operator.le),
    "xor_sum": lambda block, axis, **_: reduce(block, axis, operator.xor),
    "cumsum": lambda block, axis=0, reverse=False, **_: associative_scan(block, axis, operator.add, reverse),
    "dot": _dot,
}


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
    """Compute a fused multiply-add that rounds only once, by computing in float64 for float32 and narrower types."""
    if one.dtype == torch.float64 or not one.is_floating_point():
        return one * other + third
    return (one.double() * other.double() + third.double()).to(one.dtype)


# Mathematical functions by their names in ``libdevice`` and ``triton.language.math``. A name that torch defines as well
# is looked up in torch.
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
# Functions that are also methods of ``Block``.
for _name in (
    "broadcast_to",
    "expand_dims",
    "permute",
    "trans",
    "sum",
    "max",
    "min",
    "reduce",
    "cast",
    "ravel",
    "split",
):
    setattr(Block, _name, {**_SHAPES, **_REDUCTIONS}[_name])
for _name in ("abs", "exp", "log", "sqrt", "sigmoid"):
    setattr(Block, _name, MATHEMATICS[_name])
