"""Serialize a target and its calls for another process, with or without the tensors' values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch

from .._torch.parametrized import reduced_parametrized
from .._torch.planning.fake import Shape, made
from ..findings import CompileUsageError
from ..fresh.process import packed
from ..legs.calls import Call
from ..legs.targets import modules_of, tensors_of

_PLAIN = (torch.Tensor, torch.nn.Parameter)


def packed_tensors(target: Any, calls: Sequence[Call], options: Any, *, values: bool = False) -> bytes:
    """Pickle a target with its calls and ``options``. Each tensor is reduced to its metadata, such as its size, strides
    and dtype, and the identity of its storage.

    If ``values`` is true, the contents of the storages are included.

    Parameters, buffers, arguments, and all tensors on ``meta`` or a GPU become CUDA tensors in the plan. Other tensors
    stay on the CPU, as they would after ``model.to("cuda")``.

    Raises:
        CompileUsageError: If an object cannot be pickled, or a tensor is not a plain tensor.
    """
    contents: dict[int, bytes] = {}
    moved = {id(tensor) for tensor in tensors_of(calls)}
    for module in modules_of(target).values():
        moved |= {id(tensor) for tensor in (*module.parameters(), *module.buffers())}

    def reduced(thing: Any) -> Any:
        if not isinstance(thing, torch.Tensor):
            return reduced_parametrized(thing)
        shape = _shape(thing, on_card=id(thing) in moved or thing.device.type != "cpu")
        if values and shape.storage not in contents:
            contents[shape.storage] = bytes(thing.detach().untyped_storage())
        return made, (replace(shape, values=contents.get(shape.storage)),)

    return packed(target, (calls, options), reduced)


def _shape(tensor: torch.Tensor, *, on_card: bool) -> Shape:
    if type(tensor) not in _PLAIN or tensor.layout is not torch.strided or tensor.is_quantized:
        raise CompileUsageError(
            "a plan supports only plain tensors (no subclasses, sparse or quantized tensors), but the target or its "
            f"arguments contain a tensor of type {type(tensor).__name__}"
        )
    storage = tensor.untyped_storage()
    return Shape(
        tuple(tensor.shape),
        tensor.stride(),
        tensor.storage_offset(),
        tensor.dtype,
        tensor.requires_grad,
        isinstance(tensor, torch.nn.Parameter),
        on_card,
        storage._cdata,
        storage.nbytes(),
    )
