"""Implement on the CPU the parts of Triton's language that Inductor's generated kernels use.

The programs of a kernel launch run in large batches. A ``Block`` contains the values of one variable in every program
of a batch, in a tensor whose first dimension enumerates the programs. So a batch needs only about as many tensor
operations as the kernel has lines. Triton's own interpreter runs the programs one after another and has no
``libdevice``. In some versions, the interpreter truncates values to bfloat16 instead of rounding them.

Types are promoted as in Triton. Each load and store is checked against the bounds of its tensor's storage. Lanes that a
mask excludes contain NaN or large integers, because their values are undefined on a GPU. A function that is not
implemented here raises ``NotInterpreted`` with the function's name.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import torch

from .block import INT32, TYPES, Block, DType, NotInterpreted, aligned, promoted, shape_of
from .mathematics import MATHEMATICS
from .pointer import Launch, Pointer, poison


def language(launch: Launch) -> dict[str, Any]:
    """Return replacements for the names in ``triton.language``. The replacements use the program ids in ``launch``, and
    record faults in ``launch``.
    """

    def load(pointer: Pointer, mask: Any = None, other: Any = None, *_: Any, **hints: Any) -> Block:
        if not isinstance(pointer, Pointer):
            raise NotInterpreted("a load from a block pointer or a descriptor")
        flat, index, active = pointer.places(mask, launch, "reads")
        # Inactive lanes have the index 0, which does not exist in an empty tensor.
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


def _full(shape: Any, value: Any, dtype: DType) -> Block:
    (one,) = aligned(value)
    one = one.to(dtype.holds).reshape(one.shape[0], *[1] * len(shape))
    return Block(one.expand(one.shape[0], *shape_of((shape,))), dtype)


def _broadcast_to(block: Any, *shape: Any) -> Block:
    sizes = shape_of(shape)
    (one,) = aligned(block)
    one = one.reshape(one.shape[0], *[1] * (len(sizes) - one.ndim + 1), *one.shape[1:])
    return Block(one.expand(one.shape[0], *sizes), getattr(block, "dtype", None))


def _where(condition: Any, left: Any, right: Any) -> Block:
    (one, other), dtype = promoted(left, right)
    chosen, one, other = aligned(condition, Block(one, dtype), Block(other, dtype))
    return Block(torch.where(chosen.bool(), one, other), dtype)


def _permute(block: Block, *dims: Any) -> Block:
    order = shape_of(dims) if dims else [1, 0]
    return Block(block.data.permute(0, *[dim + 1 for dim in order]), block.dtype)


_SHAPES: dict[str, Any] = {
    "arange": lambda start, end: Block(torch.arange(int(start), int(end), dtype=torch.int32, device="cpu")[None]),
    "full": _full,
    "zeros": lambda shape, dtype: _full(shape, 0, dtype),
    "zeros_like": lambda block: Block(torch.zeros_like(block.data), block.dtype),
    "broadcast_to": _broadcast_to,
    "where": _where,
    "expand_dims": lambda block, axis: Block(block.data.unsqueeze(axis + 1 if axis >= 0 else axis), block.dtype),
    "reshape": lambda block, *shape, **_: block.reshape(*shape),
    "view": lambda block, *shape, **_: block.reshape(*shape),
    "ravel": lambda block, **_: block.reshape(-1),
    "permute": _permute,
    "trans": _permute,
    "join": lambda left, right: Block(torch.stack(torch.broadcast_tensors(*promoted(left, right)[0]), -1)),
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
    """Implement ``tl.reduce``: repeatedly combine the halves of a block until one element is left, as on a GPU."""
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
