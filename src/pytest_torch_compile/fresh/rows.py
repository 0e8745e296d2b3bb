"""Create calls that contain only one row of a batch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch

from .._torch.trees import tree_map
from ..findings import CompileUsageError
from ..legs.calls import Call
from ..legs.targets import argument_names
from ..numerics import flatten

ROWS = 16


def rows_of(target: Any, call: Call, batch_dims: Mapping[str | int, int] | None) -> dict[int, Call]:
    """Return a call for each row to check, keyed by row index. At most ``ROWS`` rows are chosen, spread over the batch.

    Raises:
        CompileUsageError: If there is no batch of at least two rows, or ``batch_dims`` does not match the arguments.
    """
    dims = _dims_of_tensors(target, call, batch_dims)
    sizes = {path: tensor.shape[dim] for path, (tensor, dim) in dims.items()}
    if len(set(sizes.values())) > 1:
        raise CompileUsageError(f"the dimensions in batch_dims have different sizes: {sizes}")
    size = next(iter(sizes.values()), 0)
    if size < 2:
        raise CompileUsageError(
            "over='batch' requires a batch of at least two rows; the rows are in the first dimension of the first "
            "tensor, unless another dimension is set with batch_dims, such as batch_dims={'x': 1}"
        )
    chosen = sorted({round(step * (size - 1) / (min(size, ROWS) - 1)) for step in range(min(size, ROWS))})
    return {row: _row(call, dims, row) for row in chosen}


def _dims_of_tensors(
    target: Any, call: Call, batch_dims: Mapping[str | int, int] | None
) -> dict[str, tuple[torch.Tensor, int]]:
    names = argument_names(target)
    named = {names[n] if n < len(names) else f"argument {n}": value for n, value in enumerate(call.args)}
    named |= call.kwargs
    if batch_dims is None:
        tensors = {
            path: t for name, value in named.items() for path, t in flatten(value, name).tensors.items() if t.ndim
        }
        size = next((tensor.shape[0] for tensor in tensors.values()), 0)
        return {path: (tensor, 0) for path, tensor in tensors.items() if tensor.shape[0] == size}
    chosen = {}
    for key, dim in batch_dims.items():
        value = call.args[key] if isinstance(key, int) and key < len(call.args) else named.get(str(key))
        if not isinstance(value, torch.Tensor) or not -value.ndim <= dim < value.ndim:
            raise CompileUsageError(
                f"batch_dims contains dimension {dim} of {key!r}, but no tensor argument has this name and dimension"
            )
        chosen[str(key)] = (value, dim)
    return chosen


def _row(call: Call, batched: Mapping[str, tuple[torch.Tensor, int]], row: int) -> Call:
    """Return the call with only one row from each batched tensor.

    Raises:
        CompileUsageError: If a batched tensor is inside an object that cannot be rebuilt with other tensors.
    """
    dims = {id(tensor): dim for tensor, dim in batched.values()}

    def cut(leaf: Any) -> Any:
        if id(leaf) not in dims:
            return leaf
        alone = leaf.detach().narrow(dims[id(leaf)], row, 1).clone()
        return alone.requires_grad_(leaf.requires_grad)

    args, kwargs = tree_map(cut, (call.args, dict(call.kwargs)))
    uncut = {id(tensor) for tensor in flatten((args, kwargs)).tensors.values()} & dims.keys()
    if uncut:
        *_, path = (path for path, (tensor, _) in batched.items() if id(tensor) in uncut)
        raise CompileUsageError(
            f"over='batch' cannot take a single row of {path}, because torch cannot rebuild the object that contains "
            "it: pass the tensor as an argument, or list the batched arguments in batch_dims"
        )
    return replace(call, args=args, kwargs=kwargs, label=f"row {row}")
