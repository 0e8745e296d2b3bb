"""Convert a target and its inputs to another dtype or device, by replacing the data of the existing tensor objects."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import torch
from torch.nn.parameter import is_lazy

from .._torch.tensor_state import TensorState, below_subclasses, can_swap_data, is_plain, is_wrapper
from ..findings import CompileUsageError
from .calls import Call
from .renewed import Replacements
from .snapshot import Contents, Snapshot
from .targets import modules_of, tensors_of

Convert = Callable[[torch.Tensor], torch.Tensor]


def to_float64(tensor: torch.Tensor) -> torch.Tensor:
    """Return a floating-point or complex tensor in double precision, and any other tensor unchanged."""
    if tensor.is_complex():
        return tensor.to(torch.complex128)
    return tensor.to(torch.float64) if tensor.is_floating_point() else tensor


def convert(snapshot: Snapshot, contents: Contents, change: Convert) -> None:
    """Replace the data of every tensor in the snapshot with the result of ``change``, for one run of the calls.

    Where possible, the tensor objects stay the same, and their new data is in new memory. Tensors that shared a storage
    share a new storage. Tensor objects whose data cannot be replaced, such as tensors with a ``grad_fn``, wrapper
    subclasses and inference tensors, are replaced by new objects.
    """
    bases: dict[tuple[Any, ...], torch.Tensor] = {}
    for tensor in snapshot.tensors():
        key = "tensor", id(tensor)
        state: TensorState = contents.held.get(key, snapshot.initial[key])
        if not is_plain(tensor) or tensor.is_inference() or not (tensor.is_leaf or not tensor.requires_grad):
            other = _converted_whole(tensor, change)
            if other is not tensor:
                contents.replacements.add(tensor, other)
            continue
        with below_subclasses():
            made = _converted(state, change, bases)
        if not can_swap_data(state.data, made):  # for example, if CPU data is moved to the meta device
            contents.replacements.add(tensor, _converted_whole(tensor, change))
        elif made is not state.data:
            contents.held[key] = state.with_data(made)


def _converted(state: TensorState, change: Convert, bases: dict[tuple[Any, ...], torch.Tensor]) -> torch.Tensor:
    data = state.data
    assert data is not None
    # An empty tensor shows whether the change applies to this dtype and device, without a copy of the data.
    probe = torch.empty(0, dtype=data.dtype, device=data.device)
    if change(probe) is probe:
        return data
    if not data.numel():
        return change(data)
    storage = data.untyped_storage()
    key = storage.data_ptr(), data.dtype  # with the dtype, because one tensor may view another tensor's bits
    if key not in bases:
        bases[key] = change(torch.empty(0, dtype=data.dtype, device=data.device).set_(storage))
    return bases[key].as_strided(data.shape, data.stride(), data.storage_offset())


def _converted_whole(tensor: torch.Tensor, change: Convert) -> torch.Tensor:
    if is_lazy(tensor) or tensor.device.type == "meta":
        return tensor
    with torch.inference_mode(tensor.is_inference()):
        changed = change(tensor.detach())
        if changed.dtype == tensor.dtype and changed.device == tensor.device:
            return tensor
        if isinstance(tensor, torch.nn.Parameter):
            changed = torch.nn.Parameter(changed, tensor.requires_grad)
        changed.requires_grad_(tensor.requires_grad)
    if not is_wrapper(tensor):
        changed.__dict__.update(tensor.__dict__)  # mark_dynamic stores its marks in this dict
    return changed


def with_replacements(call: Call, replacements: Replacements) -> Call:
    """Return the call with its arguments replaced according to ``replacements``."""
    if not replacements:
        return call
    kwargs = {name: replacements(value) for name, value in call.kwargs.items()}
    return replace(call, args=replacements(call.args), kwargs=kwargs)


@contextmanager
def on_device(target: Any, calls: Sequence[Call], device: str | None) -> Iterator[list[Call]]:
    """Inside the ``with`` block, move the target and the arguments of the calls to a device; yield the moved calls. If
    ``device`` is None, nothing is moved.

    Raises:
        CompileUsageError: If the device is not available.
    """
    tensors = [*tensors_of(calls), *(p for module in modules_of(target).values() for p in module.parameters())]
    if device is None or all(tensor.device == _resolved(device) for tensor in tensors):
        yield list(calls)
        return
    snapshot = Snapshot([target, *((call.args, call.kwargs) for call in calls)], on_host=True)
    contents, there = snapshot.new_leg(), _resolved(device)
    convert(snapshot, contents, lambda tensor: tensor if tensor.device == there else tensor.to(there))
    snapshot.replace(contents)
    with snapshot.in_force(contents):
        yield [with_replacements(call, contents.replacements) for call in calls]


def _resolved(device: str) -> torch.device:
    try:
        return torch.empty(0, device=device).device
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0]
        raise CompileUsageError(f"device {device!r} is not available: {reason}") from error
