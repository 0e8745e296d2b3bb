"""What an object holds, one step at a time: attributes, items, closed-over variables, defaults."""

from __future__ import annotations

import functools
import sys
import types
from collections import OrderedDict, deque
from collections.abc import Container, Hashable, Iterable, Iterator
from typing import Any, cast

import torch

from .._torch.user_lines import is_torch
from ..numerics.tree import attributes

EMPTY: Any = object()
"""The content of a variable that has no value yet."""

# Objects of these packages are never looked into: they hold no state of a model, or far too much of everything else.
_CLOSED = (sys.stdlib_module_names - {"__main__", "types"}) | {"numpy", "pytest", "_pytest", "pluggy", "torch"}
# What torch has of its own that does keep state in tensors.
_OPEN_IN_TORCH = ("torch.optim", "torch.distributions", "torch.amp", "torch.cuda.amp")
_MODULE_INTERNALS = frozenset(vars(torch.nn.Module())) - {"training"}
_CONTAINERS = (OrderedDict, dict, list, deque, tuple, set, frozenset)
_FUNCTIONS = (types.FunctionType, types.MethodType, types.BuiltinFunctionType, functools.partial)
_CALLABLE = (types.FunctionType, types.MethodType, functools.partial, torch.nn.Module)
_HOOKS = ("_forward_pre_hooks", "_forward_hooks", "_backward_hooks")
# Far more than any model has: beyond it lies something that is no model, such as the state of an application.
MOST_OBJECTS = 100_000


def parts(value: Any) -> Iterator[tuple[str, Any]]:
    """What ``value`` holds, each with the text that leads to it: ``.name``, ``[0]``, ``['key']``. A leaf holds none."""
    if isinstance(value, (torch.Tensor, str, bytes, int, float, type(None))):
        return
    if isinstance(value, types.FunctionType) and lives_in_torch(value):
        # What torch keeps in a wrapper of its own is not the model's; the function that it wraps is.
        yield from ((f".{name}", held) for name, cell in cells(value) if isinstance(held := content(cell), _CALLABLE))
    elif isinstance(value, types.FunctionType):
        yield from ((f".{name}", content(cell)) for name, cell in cells(value) if content(cell) is not EMPTY)
        yield from ((f".default {i}", default) for i, default in enumerate(value.__defaults__ or ()))
        yield from ((f".{name}", default) for name, default in (value.__kwdefaults__ or {}).items())
        yield from ((f".{name}", entry) for name, entry in vars(value).items() if name != "__wrapped__")
    elif isinstance(value, types.MethodType):
        yield "", value.__self__
        yield "", value.__func__
    elif isinstance(value, functools.partial):
        yield "", value.func
        yield from ((f".argument {i}", argument) for i, argument in enumerate(value.args))
        yield from ((f".{name}", argument) for name, argument in value.keywords.items())
    elif isinstance(value, torch.nn.Module):
        yield from _module_parts(value)
    elif isinstance(value, dict):
        yield from ((_key(i, key), item) for i, (key, item) in enumerate(items(value)))
    elif isinstance(value, (list, tuple, deque)):
        yield from ((f"[{i}]", item) for i, item in enumerate(items(value)))
    elif isinstance(value, (set, frozenset)):
        yield from (("{}", item) for item in items(value))
    if is_open(value):
        by_name = attributes(value)
        yield from ((f".{name}", by_name[name]) for name in sorted(by_name, key=str))


def _key(position: int, key: Any) -> str:
    plain = isinstance(key, (str, int, float, tuple, type(None))) and len(text := repr(key)) <= 80
    return f"[{text}]" if plain else f"[{type(key).__name__} {position}]"


def _module_parts(module: torch.nn.Module) -> Iterator[tuple[str, Any]]:
    for name in sorted(vars(module).keys() - _MODULE_INTERNALS):
        yield f".{name}", vars(module)[name]
    for group in ("_parameters", "_buffers", "_modules"):
        yield from ((f".{name}", value) for name, value in vars(module)[group].items() if value is not None)
    for group in _HOOKS:
        yield from ((f".hook {i}", hook) for i, hook in enumerate(vars(module)[group].values()))


def is_open(value: Any) -> bool:
    """Whether an object of no built-in kind is looked into, by its attributes."""
    return is_open_kind(cast("Hashable", type(value)))


@functools.lru_cache(maxsize=4096)
def is_open_kind(kind: Any) -> bool:
    """Whether objects of a class are looked into."""
    if issubclass(kind, (torch.nn.Module, type, types.ModuleType, *_FUNCTIONS)):
        return False
    module: str = kind.__module__
    return module.startswith(_OPEN_IN_TORCH) or module.partition(".")[0] not in _CLOSED


def lives_in_torch(function: types.FunctionType) -> bool:
    """Whether a function is torch's own, a wrapper around another function included."""
    return (function.__module__ or "").partition(".")[0] == "torch" or is_torch(function.__code__.co_filename)


def container_kind(value: Any) -> Any:
    """The container type of Python's own that a value is of; None for what is no container."""
    return next((kind for kind in _CONTAINERS if isinstance(value, kind)), None)


def items(container: Any) -> list[Any]:
    """The items of a container, pairs for a mapping, past what a subclass makes of reading them."""
    kind = container_kind(container)
    return list(kind.items(container) if isinstance(container, dict) else kind.__iter__(container))


def cells(function: types.FunctionType) -> Iterator[tuple[str, types.CellType]]:
    """The variables that a function closes over, by name."""
    return zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)


def content(cell: types.CellType) -> Any:
    """What a closed-over variable holds; ``EMPTY`` before it is assigned."""
    try:
        return cell.cell_contents
    except ValueError:
        return EMPTY


def reached(roots: Iterable[Any], closed: Container[object] = ()) -> Iterator[Any]:
    """Every object that the roots hold, at any depth, each once, the roots included.

    Objects whose ids are in ``closed`` are left out with all that only they hold.
    """
    waiting, seen = list(roots), set[int]()
    while waiting and len(seen) < MOST_OBJECTS:
        value = waiting.pop()
        if id(value) in seen or id(value) in closed:
            continue
        seen.add(id(value))
        yield value
        waiting.extend(part for _, part in parts(value))
