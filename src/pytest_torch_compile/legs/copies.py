"""Copies of a target and its inputs that share nothing with the caller's: each leg starts from the same state."""

from __future__ import annotations

import contextlib
import copy
import functools
import types
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import torch

from .._torch.compiled import rebind
from .._torch.identity import known_by_identity
from ..findings import CompileUsageError
from ..numerics import flatten
from .calls import Call
from .holders import is_mutable
from .reach import EMPTY, cells, content, lives_in_torch, parts, reached

_COPIED_AS_THEY_ARE = (
    str, bytes, int, float, complex, type(None), type, tuple, frozenset, types.ModuleType, types.BuiltinFunctionType,
    types.MethodType, functools.partial,
)  # fmt: skip


def copy_leg(
    target: Any, calls: Sequence[Call], cast: torch.dtype | None = None
) -> tuple[Any, list[Call], dict[str, torch.nn.Module]]:
    """A copy of target and calls for one leg, and its modules by name prefix.

    Inputs keep strides, storage sharing, ``requires_grad`` and dynamic marks; what the target and the calls share stays
    shared within the copy. ``cast`` turns floating parameters and inputs into another dtype.

    Raises:
        CompileUsageError: something that cannot be deep-copied.
    """
    with torch.inference_mode(False):  # where it is on, copies of normal tensors would be inference tensors
        memo: dict[int, Any] = {}
        bases: dict[tuple[int, torch.dtype], torch.Tensor] = {}
        roots = _roots(target, calls)
        registered = _registered(target)
        for tensor in (*_tensors(calls), *(value for value in reached(roots) if isinstance(value, torch.Tensor))):
            if id(tensor) in memo:
                continue
            casts = cast is not None and id(tensor) not in registered
            replacement = _cast_copy(tensor, cast, bases) if casts and cast else _special_copy(tensor, memo)
            if replacement is not None:
                memo[id(tensor)] = replacement
        _copy_functions(functions_to_copy(roots), memo)
        _share_what_cannot_be_copied(roots, memo)
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
    _copy_functions(functions_to_copy([target]), memo)
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
    by_name: dict[str, torch.nn.Module] = {}
    for name, value in _parts(target):
        for inner, module in modules_of(value).items() if not isinstance(value, type) else ():
            by_name.setdefault(f"{name}.{inner}".strip("."), module)
    return by_name


def _parts(target: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(target, types.MethodType):
        yield "", target.__self__
    elif isinstance(target, functools.partial):
        yield "", target.func
        yield from ((f"argument {i}", value) for i, value in enumerate(target.args))
    elif isinstance(target, types.FunctionType):
        yield from ((name, content(cell)) for name, cell in cells(target) if content(cell) is not EMPTY)
    elif hasattr(target, "__dict__") and not isinstance(target, type):
        yield from ((name, value) for name, value in vars(target).items() if isinstance(value, torch.nn.Module))


def _roots(target: Any, calls: Sequence[Call]) -> list[Any]:
    return [target, *(part for call in calls for part in (call.args, call.kwargs, call.actions))]


def _registered(target: Any) -> set[int]:
    """Parameters and buffers: ``module.to`` casts them."""
    modules = [value for value in reached([target]) if isinstance(value, torch.nn.Module)]
    return {id(tensor) for module in modules for tensor in (*module.parameters(), *module.buffers())}


def functions_to_copy(roots: Sequence[Any]) -> list[types.FunctionType]:
    """The functions that a leg needs for itself, since they hold what the leg has a copy of.

    That is a tensor or module, or an object that is also reached otherwise. Functions that live in torch or that
    dynamo knows by identity are never copied.
    """
    functions = [value for value in reached(roots) if isinstance(value, types.FunctionType)]
    every = frozenset(map(id, functions))
    copied = {id(value) for value in reached(roots, closed=every) if is_mutable(value)}
    return [
        function
        for function in functions
        if not lives_in_torch(function)
        and not known_by_identity(function)
        and any(
            isinstance(value, (torch.Tensor, torch.nn.Module)) or id(value) in copied
            for value in reached(part for _, part in parts(function))
        )
    ]


def functions_left(target: Any, calls: Sequence[Call]) -> list[types.FunctionType]:
    """The functions that all legs share with the caller."""
    roots = _roots(target, calls)
    copied = set(map(id, functions_to_copy(roots)))
    return [value for value in reached(roots) if isinstance(value, types.FunctionType) and id(value) not in copied]


def _copy_functions(functions: Sequence[types.FunctionType], memo: dict[int, Any]) -> None:
    """Plain deepcopy keeps functions as they are; these get twins with variables and defaults of their own."""
    for function in functions:
        own = tuple(memo.setdefault(id(cell), types.CellType()) for _, cell in cells(function))
        twin = types.FunctionType(function.__code__, function.__globals__, function.__name__, None, own)
        twin.__qualname__, twin.__module__, twin.__doc__ = function.__qualname__, function.__module__, function.__doc__
        memo[id(function)] = twin
    for function in functions:
        twin = memo[id(function)]
        for _, cell in cells(function):
            if content(cell) is not EMPTY and content(memo[id(cell)]) is EMPTY:
                memo[id(cell)].cell_contents = _copied_content(content(cell), memo)
        twin.__defaults__ = _copied_content(function.__defaults__, memo)
        twin.__kwdefaults__ = _copied_content(function.__kwdefaults__, memo)
        twin.__dict__.update({name: _copied_content(value, memo) for name, value in vars(function).items()})


def _copied_content(value: Any, memo: dict[int, Any]) -> Any:
    _share_what_cannot_be_copied([value], memo)
    try:
        return copy.deepcopy(value, memo)
    except Exception as error:
        if isinstance(value, (torch.nn.Module, torch.Tensor)):
            raise CompileUsageError(
                f"{_name(value)}, which the target closes over, cannot be deep-copied, and each leg of the check "
                f"needs its own copy: {type(error).__name__}: {error}"
            ) from error
        return value  # a generator, a fixture: shared between the legs


def _share_what_cannot_be_copied(roots: Sequence[Any], memo: dict[int, Any]) -> None:
    """Locks, open files and the like hold no state of a model: the copy has the caller's."""
    for value in reached(roots):
        if id(value) in memo or is_mutable(value) or isinstance(value, _COPIED_AS_THEY_ARE):
            continue
        try:
            copy.deepcopy(value, memo)
        except Exception:  # a class may raise anything when it is copied
            memo[id(value)] = value


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
            return copy.deepcopy(tensor, memo)
    if isinstance(tensor, torch.Tensor) and tensor.requires_grad and not tensor.is_leaf:
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
