"""Traverse the contents of objects: attributes, items, closed-over variables, defaults, gradients, hooks.

The functions in this module never run user code: they do not call an object's properties or ``__getattr__``, and do not
apply ``len``, ``==``, ``bool``, ``repr`` or ``hash`` to an object.
"""

from __future__ import annotations

import contextvars
import functools
import linecache
import sys
import threading
import types
import weakref
from collections import OrderedDict, deque
from collections.abc import Container, Iterable, Iterator
from typing import Any

import torch

from .._torch.attributes import CLOSED_PACKAGES, attributes, is_a
from .._torch.class_cache import cached_by_class
from .._torch.compiled import DYNAMOS_OWN
from .._torch.tensor_state import without_torch_function
from .._torch.user_lines import is_torch

EMPTY: Any = object()
"""Marks a variable that has no value."""

PLAIN = frozenset({bool, int, float, complex, str, bytes, type(None)})
"""The most common types whose values are immutable and contain no other objects."""

_CLOSED = CLOSED_PACKAGES | {"torch"}
# The kernels of compilers are not traversed either. A kernel refers to its compiler and to caches, which eager and
# compiled code fill differently. Other objects of these packages, such as Triton's tensor descriptors, contain tensors.
_KERNELS = ("triton.runtime.", "triton.compiler.", "triton.backends.", "numba.core.", "numba.np.", "numba.cuda.")
# Types of the standard library and torch that have state.
_OPEN_KINDS = (threading.local, weakref.WeakKeyDictionary, weakref.WeakValueDictionary)
_OPEN_IN_TORCH = ("torch.optim", "torch.distributions", "torch.amp", "torch.cuda.amp")
_MODULE_INTERNALS = frozenset(vars(torch.nn.Module())) - {"training"}
_CONTAINERS = (OrderedDict, dict, list, deque, tuple, set, frozenset)
_FUNCTIONS = (types.FunctionType, types.MethodType, types.BuiltinFunctionType, functools.partial)
_CALLABLE = (types.FunctionType, types.MethodType, functools.partial, torch.nn.Module)
_CACHED = type(functools.lru_cache(lambda: None))
_HOOKS = ("_forward_pre_hooks", "_forward_hooks", "_backward_hooks")
_TENSOR_HOOKS = ("_backward_hooks", "_post_accumulate_grad_hooks")
# Tables that Python fills when it imports a module or reads a source file, which the compiler does too.
_TABLES_OF_PYTHON = frozenset(map(id, (linecache.cache, sys.modules, sys.path_importer_cache)))
# The maximum number of objects to visit. It is far above the number of objects in any model. A larger object graph
# includes other objects, such as the state of an application.
MOST_OBJECTS = 100_000

Parts = Iterator[tuple[str, Any]]


def is_plain(value: Any) -> bool:
    """Return whether the type of a value is in ``PLAIN``, without calling a metaclass's ``__hash__``."""
    return type(type(value)) is type and type(value) in PLAIN


def is_table_of_python(value: Any) -> bool:
    """Return whether a value is one of Python's tables of modules and source lines, such as ``sys.modules``. As a
    part of a target's state, these tables are neither restored nor compared.
    """
    return id(value) in _TABLES_OF_PYTHON


def parts(value: Any) -> Parts:
    """Yield each object that ``value`` contains or refers to, with its access path, such as ``.name``, ``[0]`` or
    ``['key']``.
    """
    if is_plain(value) or is_a(value, (str, bytes, int, float)):
        return
    if is_a(value, torch.Tensor):
        yield from _tensor_parts(value)
        return
    if is_a(value, types.FunctionType):
        yield from _function_parts(value)
    elif is_a(value, types.MethodType):
        yield "", value.__self__
        yield "", value.__func__
    elif is_a(value, functools.partial):
        yield "", value.func
        yield from ((f".argument {i}", argument) for i, argument in enumerate(value.args))
        yield from ((f".{name}", argument) for name, argument in value.keywords.items())
    elif is_a(value, _CACHED):
        yield "", value.__wrapped__
    elif is_a(value, contextvars.ContextVar):
        yield ".value", value.get(None)
    elif is_a(value, weakref.ref):
        yield "()", weakref.ref.__call__(value)
    elif is_a(value, torch.nn.Module):
        yield from _module_parts(value)
    elif is_a(value, dict):
        for i, (key, item) in enumerate(items(value)):
            text = repr(key) if is_plain_key(key) else ""  # the repr of other keys may run the user's code
            yield f"[{text}]" if 0 < len(text) <= 80 else f"[{type(key).__name__} {i}]", item
    elif is_a(value, (list, tuple, deque)):
        yield from ((f"[{i}]", item) for i, item in enumerate(items(value)))
    elif is_a(value, (set, frozenset)):
        yield from (("{}", item) for item in items(value))
    if is_open(value):
        by_name = attributes(value)
        yield from ((f".{name}", by_name[name]) for name in sorted(by_name, key=str))


def is_plain_key(key: Any) -> bool:
    """Return whether a key can be written as source: a plain value, or a tuple of plain values."""
    return is_plain(key) or (type(key) is tuple and all(map(is_plain, key)))


def _function_parts(function: types.FunctionType) -> Parts:
    if lives_in_torch(function):
        # Attributes of torch's wrappers are not model state, but the wrapped function is.
        yield from ((f".{n}", held) for n, cell in cells(function) if is_a(held := content(cell), _CALLABLE))
        return
    yield from ((f".{name}", content(cell)) for name, cell in cells(function) if content(cell) is not EMPTY)
    yield from ((f".default {i}", default) for i, default in enumerate(function.__defaults__ or ()))
    yield from ((f".{name}", default) for name, default in (function.__kwdefaults__ or {}).items())
    hidden = ("__wrapped__", *DYNAMOS_OWN)
    yield from ((f".{name}", entry) for name, entry in vars(function).items() if not name.startswith(hidden))


def _module_parts(module: torch.nn.Module) -> Parts:
    own = attributes(module)
    for name in sorted(own.keys() - _MODULE_INTERNALS, key=str):
        if not str(name).startswith(DYNAMOS_OWN):
            yield f".{name}", own[name]
    for group in ("_parameters", "_buffers", "_modules"):
        yield from ((f".{name}", value) for name, value in own.get(group, {}).items() if value is not None)
    for group in _HOOKS:
        yield from ((f".hook {i}", hook) for i, hook in enumerate(own.get(group, {}).values()))


def _tensor_parts(tensor: torch.Tensor) -> Parts:
    """Yield a tensor's gradient, attributes and hooks. The inner tensors of a wrapper subclass are among its
    attributes.
    """
    with without_torch_function():
        grad = tensor.grad if tensor.is_leaf else None
        hooks = [hook for name in _TENSOR_HOOKS for hook in (getattr(tensor, name) or {}).values()]
    if grad is not None:
        yield ".grad", grad
    for name, value in attributes(tensor).items():
        if not str(name).startswith(DYNAMOS_OWN):
            yield f".{name}", value
    yield from ((f".hook {i}", hook) for i, hook in enumerate(hooks))


def is_open(value: Any) -> bool:
    """Return whether to traverse an object's attributes. The attributes are traversed for user-defined types, and for a
    few types of torch and the standard library that have state. Modules, tensors and functions are traversed
    separately.
    """
    return _is_open_kind(type(value))


@cached_by_class
def _is_open_kind(kind: type) -> bool:
    if issubclass(kind, (torch.nn.Module, torch.Tensor, type, types.ModuleType, *_FUNCTIONS)):
        return False
    if any(base is known for base in kind.__mro__ for known in _OPEN_KINDS):
        return True
    if any(str(base.__module__).startswith(_KERNELS) for base in kind.__mro__):
        return False
    module = str(kind.__module__)
    return module.startswith(_OPEN_IN_TORCH) or module.partition(".")[0] not in _CLOSED


def lives_in_torch(function: types.FunctionType) -> bool:
    """Return whether a function belongs to torch, including torch's wrappers around other functions."""
    return (function.__module__ or "").partition(".")[0] == "torch" or is_torch(function.__code__.co_filename)


def container_kind(value: Any) -> Any:
    """Return the built-in container type of a value, or None if it is not a container."""
    if type(value) is dict or type(value) is list:  # the most common types
        return type(value)
    return _container_kind_of(type(value))


@cached_by_class
def _container_kind_of(kind: type) -> Any:
    return next((container for container in _CONTAINERS if issubclass(kind, container)), None)


def items(container: Any) -> list[Any]:
    """Return the items of a container (pairs for a mapping), bypassing methods of subclasses."""
    kind = container_kind(container)
    return list(kind.items(container) if issubclass(kind, dict) else kind.__iter__(container))


def cells(function: types.FunctionType) -> Iterator[tuple[str, types.CellType]]:
    """Yield the name and the cell of each closed-over variable of a function."""
    return zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)


def content(cell: types.CellType) -> Any:
    """Return the value of a closed-over variable, or ``EMPTY`` if the variable has not been assigned."""
    try:
        return cell.cell_contents
    except ValueError:
        return EMPTY


def reached(roots: Iterable[Any], closed: Container[object] = ()) -> Iterator[Any]:
    """Yield all objects that are reachable from the roots, and the roots themselves, but no objects whose type is in
    ``PLAIN``. Each object appears once.

    Objects whose ids are in ``closed`` are skipped, as is everything that is reachable only through them.
    """
    waiting, seen = list(roots), set[int]()
    while waiting and len(seen) < MOST_OBJECTS:
        value = waiting.pop()
        if is_plain(value) or id(value) in seen or id(value) in closed or is_table_of_python(value):
            continue
        seen.add(id(value))
        yield value
        waiting.extend(part for _, part in parts(value))
