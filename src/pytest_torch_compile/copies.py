"""Copies of a target and its inputs that share nothing with the caller's: each leg starts from the same state."""

from __future__ import annotations

import contextlib
import copy
import functools
import types
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import torch

from ._torch.compiled import rebind
from .findings import CompileUsageError
from .numerics import flatten
from .sequence import Call

_EMPTY = object()


def copy_leg(
    target: Any, calls: Sequence[Call], cast: torch.dtype | None = None
) -> tuple[Any, list[Call], dict[str, torch.nn.Module]]:
    """A copy of target and calls for one leg, and its modules by name prefix.

    Inputs keep strides, storage sharing, ``requires_grad`` and dynamic marks; what the target and the calls share stays
    shared within the copy. ``cast`` turns floating parameters and inputs into another dtype.

    Raises:
        CompileUsageError: something that cannot be deep-copied.
    """
    memo: dict[int, Any] = {}
    for owner in (target, *(action for call in calls for action in call.actions)):
        _copy_closures(owner, memo)
    bases: dict[tuple[int, torch.dtype], torch.Tensor] = {}
    for tensor in _tensors(calls):
        replacement = _special_copy(tensor, memo) if cast is None else _cast_copy(tensor, cast, bases)
        if replacement is not None:
            memo[id(tensor)] = replacement
    try:
        new_target, new_calls = copy.deepcopy((target, list(calls)), memo)
    except CompileUsageError:
        raise
    except Exception as error:
        raise CompileUsageError(
            f"{_name(target)} or its inputs cannot be deep-copied, and each leg of the check needs its own copy: "
            f"{type(error).__name__}: {error}. Give the class that cannot be copied a __deepcopy__ method."
        ) from error
    for tensor in _tensors(new_calls):
        _settle(tensor, cast)
    modules = modules_of(new_target)
    for module in modules.values():
        rebind(module)
        if cast is not None:
            module.to(cast)
    return new_target, new_calls, modules


def on_device(target: Any, calls: Sequence[Call], device: str | None) -> tuple[Any, list[Call]]:
    """Target and calls on a device: copies where something has to move, the caller's own where nothing has.

    Raises:
        CompileUsageError: a device that is not there.
    """
    tensors = [*_tensors(calls), *(p for module in modules_of(target).values() for p in module.parameters())]
    if device is None or all(tensor.device == _resolved(device) for tensor in tensors):
        return target, list(calls)
    memo: dict[int, Any] = {id(t): _moved(t, _resolved(device)) for t in _tensors(calls)}
    _copy_closures(target, memo)
    target, moved = copy.deepcopy((target, list(calls)), memo)
    for module in modules_of(target).values():
        module.to(device)
    return target, moved


def _resolved(device: str) -> torch.device:
    try:
        return torch.empty(0, device=device).device
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0]
        raise CompileUsageError(f"device {device!r} is not there: {reason}") from error


def _moved(tensor: torch.Tensor, device: torch.device) -> torch.Tensor:
    moved = tensor.detach().to(device).requires_grad_(tensor.requires_grad)
    moved.__dict__.update(tensor.__dict__)  # dynamic marks
    return moved


def modules_of(target: Any) -> dict[str, torch.nn.Module]:
    """The modules whose state belongs to a target: itself, a bound method's owner, or those a function closes over."""
    if isinstance(target, torch.nn.Module):
        return {"": target}
    found: dict[str, torch.nn.Module] = {}
    for name, value in _parts(target):
        for inner, module in modules_of(value).items() if not isinstance(value, type) else ():
            found.setdefault(f"{name}.{inner}".strip("."), module)
    return found


def _parts(target: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(target, types.MethodType):
        yield "", target.__self__
    elif isinstance(target, functools.partial):
        yield "", target.func
        yield from ((f"argument {i}", value) for i, value in enumerate(target.args))
    elif isinstance(target, types.FunctionType):
        yield from _closure(target)
    elif hasattr(target, "__dict__") and not isinstance(target, type):
        yield from ((name, value) for name, value in vars(target).items() if isinstance(value, torch.nn.Module))


def _closure(function: types.FunctionType) -> Iterator[tuple[str, Any]]:
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        if _content(cell) is not _EMPTY:
            yield name, _content(cell)


def _copy_closures(owner: Any, memo: dict[int, Any]) -> None:
    """Plain deepcopy keeps functions as they are; a leg needs the variables that a function closes over for itself."""
    if isinstance(owner, functools.partial):
        _copy_closures(owner.func, memo)
    if not isinstance(owner, types.FunctionType) or not owner.__closure__ or id(owner) in memo:
        return
    cells = tuple(memo.setdefault(id(cell), types.CellType()) for cell in owner.__closure__)
    twin = types.FunctionType(owner.__code__, owner.__globals__, owner.__name__, owner.__defaults__, cells)
    twin.__kwdefaults__, twin.__qualname__, twin.__module__ = (
        owner.__kwdefaults__,
        owner.__qualname__,
        owner.__module__,
    )
    twin.__dict__.update(owner.__dict__)
    memo[id(owner)] = twin
    for cell, twin_cell in zip(owner.__closure__, cells, strict=True):
        _copy_cell(cell, twin_cell, memo)


def _copy_cell(cell: types.CellType, twin: types.CellType, memo: dict[int, Any]) -> None:
    if _content(cell) is _EMPTY or _content(twin) is not _EMPTY:
        return
    content = _content(cell)
    _copy_closures(content, memo)
    try:
        twin.cell_contents = copy.deepcopy(content, memo)
    except Exception as error:
        if isinstance(content, (torch.nn.Module, torch.Tensor)):
            raise CompileUsageError(
                f"{_name(content)}, which the target closes over, cannot be deep-copied, and each leg of the check "
                f"needs its own copy: {type(error).__name__}: {error}"
            ) from error
        twin.cell_contents = content  # a lock, a generator, a fixture: shared between the legs


def _content(cell: types.CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        return _EMPTY


def _tensors(calls: Iterable[Call]) -> Iterator[torch.Tensor]:
    for call in calls:
        yield from flatten((call.args, dict(call.kwargs)), "inputs").tensors.values()


def _cast_copy(
    tensor: torch.Tensor, cast: torch.dtype, bases: dict[tuple[int, torch.dtype], torch.Tensor]
) -> torch.Tensor | None:
    """A floating tensor in another dtype, with its strides, and sharing storage with whatever it shared it with."""
    if not tensor.is_floating_point() and not tensor.is_complex():
        return None
    dtype = torch.complex128 if tensor.is_complex() else cast
    if tensor.layout != torch.strided or not tensor.numel():
        return tensor.detach().to(dtype, copy=True).requires_grad_(tensor.requires_grad)
    storage = tensor.untyped_storage()
    key = (storage.data_ptr(), tensor.dtype)
    if key not in bases:
        bases[key] = torch.empty(0, dtype=tensor.dtype, device=tensor.device).set_(storage).to(dtype, copy=True)
    twin = bases[key].as_strided(tensor.shape, tensor.stride(), tensor.storage_offset())
    return twin.detach().requires_grad_(tensor.requires_grad)


def _special_copy(tensor: torch.Tensor, memo: dict[int, Any]) -> torch.Tensor | None:
    """The copy of a tensor that plain deepcopy refuses or would make wrong; None where deepcopy does it right."""
    if id(tensor) in memo:
        return None
    if tensor.is_inference():
        with torch.inference_mode():
            return tensor.clone()
    if tensor.requires_grad and not tensor.is_leaf:
        twin = copy.deepcopy(tensor.detach(), memo).requires_grad_(True)
        twin.__dict__.update(tensor.__dict__)
        return twin
    return None


def _settle(tensor: torch.Tensor, cast: torch.dtype | None) -> None:
    """Make right, in place, what a container that copies itself made of its tensors, as a TensorDict does."""
    if cast is not None and tensor.is_floating_point() and tensor.dtype != cast:
        tensor.data = tensor.data.to(cast)
    if tensor.requires_grad and not tensor.is_leaf:
        with contextlib.suppress(RuntimeError):  # a view cannot be detached in place
            tensor.detach_().requires_grad_()


def _name(target: Any) -> str:
    return getattr(target, "__qualname__", None) or type(target).__name__
