"""Inspect a check's target and calls: modules, argument names, tensors and dynamic dimensions."""

from __future__ import annotations

import functools
import inspect
import itertools
import types
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from .._torch.attributes import attributes, is_a
from .._torch.dynamic import mark_dynamic_dim, mark_unbacked_dim
from .._torch.tensor_state import without_torch_function
from ..findings import CompileUsageError
from ..numerics import flatten
from .calls import Call
from .reach import EMPTY, cells, content, reached

DynamicDims = Mapping[str | int, Any]


@dataclass(frozen=True)
class Factory:
    """A function that creates a separate target for each run of a check. Returned by ``factory(...)``."""

    make: Callable[[], Any]

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Create a target and call it."""
        return self.make()(*args, **kwargs)


def factory(make: Callable[[], Any]) -> Factory:
    """Make a check create a new target for each run, after setting the seed: ``check_compile(factory(make), x)``.

    Use this function for a target whose state cannot be restored, such as a target that uses a network connection or
    writes to a file.

    Raises:
        CompileUsageError: If ``make`` is not callable, or is a module instance.
    """
    if not callable(make) or isinstance(make, torch.nn.Module):
        raise CompileUsageError(f"factory() expects a function that creates the target, not {type(make).__name__}")
    return Factory(make)


def modules_of(target: Any) -> dict[str, torch.nn.Module]:
    """Return the modules whose state belongs to a target, by name: the target itself, the owner of a bound method, or
    the modules in a function's closed-over variables, a partial's arguments or an object's attributes.
    """
    if is_a(target, torch.nn.Module):
        return {"": target}
    by_name: dict[str, torch.nn.Module] = {}
    for name, value in _parts(target):
        for inner, module in modules_of(value).items() if not isinstance(value, type) else ():
            by_name.setdefault(f"{name}.{inner}".strip("."), module)
    return by_name


def device_of(target: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None) -> torch.device:
    """Return the device of the first parameter or buffer or, if there are none, of the first tensor argument. Without
    either, as for an optimizer's ``step``, return the device of the first tensor that the target refers to, or the CPU.
    """
    own = (t for module in modules_of(target).values() for t in itertools.chain(module.parameters(), module.buffers()))
    given = flatten((tuple(args), dict(kwargs or {})), "input").tensors.values()
    others = (value for value in reached([target]) if is_a(value, torch.Tensor))
    with without_torch_function():
        tensor = next(itertools.chain(own, given, others), None)
        return torch.device("cpu") if tensor is None else tensor.device


def _parts(target: Any) -> Iterator[tuple[str, Any]]:
    if is_a(target, types.MethodType):
        yield "", target.__self__
    elif is_a(target, functools.partial):
        yield "", target.func
        yield from ((f"argument {i}", value) for i, value in enumerate(target.args))
    elif is_a(target, types.FunctionType):
        yield from ((name, content(cell)) for name, cell in cells(target) if content(cell) is not EMPTY)
    elif not is_a(target, type):
        yield from ((name, value) for name, value in attributes(target).items() if is_a(value, torch.nn.Module))


def runs_backward(train: Any) -> bool:
    """Return whether the option ``train`` requests a backward pass: it is True or a loss function. The truth value of a
    loss function is not used, because its class may define ``__bool__`` or ``__len__``.
    """
    return train is True or callable(train)


def called_function(target: Any) -> Any:
    """Return the Python function or method that runs when the target is called, or the target itself if there is none,
    for example because the target is a partial. The target's ``__getattr__`` is not called.
    """
    if is_a(target, torch.nn.Module):
        return target.forward
    calls = [vars(kind)["__call__"] for kind in type(target).__mro__ if "__call__" in vars(kind)]
    return types.MethodType(calls[0], target) if calls and is_a(calls[0], types.FunctionType) else target


def argument_names(target: Any) -> tuple[str, ...]:
    """Return the names of the positional parameters in a target's signature, or an empty tuple if the signature is
    unknown.
    """
    if is_a(target, Factory):
        return ()
    try:
        parameters = inspect.signature(called_function(target)).parameters.values()
    except (TypeError, ValueError):
        return ()
    return tuple(p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD))


def argument_label(names: Sequence[str], position: int) -> str:
    """Return the name of a positional argument, or its position if the name is unknown."""
    return names[position] if position < len(names) else f"argument {position}"


def mark_dynamic(call: Call, dynamic_dims: DynamicDims, names: Sequence[str], calls: Sequence[Call] = ()) -> None:
    """Mark dimensions of a call's tensors as dynamic. An argument that this call does not pass, or that is None, is
    skipped if another one of ``calls`` passes a tensor.

    The keys of ``dynamic_dims`` are argument names or positions. A value is a dimension, a tuple of dimensions, or a
    dict that maps dimensions to ranges of sizes. With ``{"x": 0, 1: (0, 2), "mask": {1: (2, 512)}}``, dimension 0 of
    ``x``, dimensions 0 and 2 of the second argument, and dimension 1 of ``mask`` are dynamic. Dimension 1 of ``mask``
    has sizes from 2 to 512, inclusive.

    A string instead of a range, as in ``{"x": {0: "batch"}, "y": {0: "batch"}}``, marks the dimensions as unbacked. All
    dimensions with the same string have the same size.

    Raises:
        CompileUsageError: If ``dynamic_dims`` is not a dict of dimensions, a name or position does not refer to a
            tensor argument, or a dimension does not exist.
    """
    if not isinstance(dynamic_dims, Mapping):
        raise CompileUsageError(
            f"dynamic_dims is {dynamic_dims!r}, but it must be a dict that maps argument names or positions to "
            "dimensions: dynamic_dims={'x': 0}"
        )
    named = [name for dims in dynamic_dims.values() if isinstance(dims, Mapping) for name in dims.values()]
    for key, dims in dynamic_dims.items():
        tensor = _argument(call, key, names)
        if tensor is None and any(isinstance(_argument(other, key, names), torch.Tensor) for other in calls):
            continue
        if not isinstance(tensor, torch.Tensor):
            given = [argument_label(names, i) for i in range(len(call.args))] + list(call.kwargs)
            raise CompileUsageError(
                f"dynamic_dims contains {key!r}, which is not a tensor argument of the call; the call's arguments are: "
                f"{', '.join(given)}"
            )
        several = isinstance(dims, (Mapping, list, tuple, set, frozenset))
        ranges = dims if isinstance(dims, Mapping) else dict.fromkeys(dims if several else (dims,))
        for dim, bounds in ranges.items():
            if not isinstance(dim, int):
                raise CompileUsageError(
                    f"dynamic_dims: {dim!r} is not a dimension of {key!r}; pass the dimension's index, from 0"
                )
            if not -tensor.ndim <= dim < tensor.ndim:
                s = "" if tensor.ndim == 1 else "s"
                raise CompileUsageError(
                    f"dynamic_dims: {key!r} has {tensor.ndim} dimension{s}, so dimension {dim} does not exist"
                )
            if isinstance(bounds, str):
                mark_unbacked_dim(tensor, dim % tensor.ndim, bounds, shared=named.count(bounds) > 1)
            else:
                mark_dynamic_dim(tensor, dim % tensor.ndim, bounds)


def _argument(call: Call, key: str | int, names: Sequence[str]) -> Any:
    if isinstance(key, int):
        return call.args[key] if 0 <= key < len(call.args) else None
    if key in call.kwargs:
        return call.kwargs[key]
    position = names.index(key) if key in names else len(call.args)
    return call.args[position] if position < len(call.args) else None


def tensors_of(calls: Iterable[Call]) -> Iterator[torch.Tensor]:
    """Yield the tensors in the arguments of the calls."""
    for call in calls:
        yield from flatten((call.args, dict(call.kwargs)), "inputs").tensors.values()
