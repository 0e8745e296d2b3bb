"""Determine which calls are alike. Calls are alike if they have the same target, their arguments have the same
structure, dtypes and numbers of dimensions, and torch can use one graph for their sizes (automatic dynamic shapes).
"""

from __future__ import annotations

import enum
import types
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from .._torch.attributes import attributes, is_a
from ..legs.reach import PLAIN, container_kind, is_open, items

_DEEPEST = 6
_MOST_ITEMS = 256
_INTERNALS = frozenset(vars(torch.nn.Module())) - {"training"}


@dataclass(frozen=True)
class Signature:
    """The properties that determine which calls are alike. Calls with the same ``family`` can be checked in one
    sequence; ``sizes`` contains all sizes of the tensor arguments.
    """

    family: Any
    sizes: tuple[int, ...]


def signature(name: str, target: Any, args: Sequence[Any], kwargs: Mapping[str, Any], *more: Any) -> Signature:
    """Determine the signature of a call, without running user code."""
    sizes: list[int] = []
    owner = target.__self__ if isinstance(target, types.MethodType) else target
    own = _described(owner, [], 0) if not isinstance(owner, (types.FunctionType, type)) else name
    given = tuple(_described(value, sizes, 0) for value in args)
    named = tuple((key, _described(value, sizes, 0)) for key, value in kwargs.items())
    return Signature((name, own, given, named, more), tuple(sizes))


def _described(value: Any, sizes: list[int], depth: int) -> Any:
    kind = type(value)
    if kind in PLAIN:
        return kind.__name__, value if kind is not str else hash(value)
    if is_a(value, torch.Tensor):
        return _tensor(value, sizes)
    if is_a(value, (torch.dtype, torch.device, torch.layout, torch.memory_format)):
        return str(value)
    if is_a(value, enum.Enum):
        return kind.__qualname__, value._name_
    if is_a(value, type):
        return "type", value.__qualname__
    if is_a(value, (types.FunctionType, types.BuiltinFunctionType, types.MethodType)):
        return "function", getattr(value, "__qualname__", "")
    if depth >= _DEEPEST:
        return kind.__qualname__
    if container_kind(value) is not None:
        held = items(value)[:_MOST_ITEMS]
        if is_a(value, dict):
            return kind.__qualname__, tuple((str(k), _described(v, sizes, depth + 1)) for k, v in held)
        return kind.__qualname__, len(held), tuple(_described(one, sizes, depth + 1) for one in held)
    if is_a(value, torch.nn.Module):
        own = attributes(value)
        parts = [(key, own[key]) for key in own if key not in _INTERNALS]
        parts += [entry for group in ("_parameters", "_buffers", "_modules") for entry in own.get(group, {}).items()]
        return _whole(kind, parts, depth)
    if is_open(value):
        return _whole(kind, attributes(value).items(), depth)
    return kind.__qualname__


def _whole(kind: type, parts: Any, depth: int) -> Any:
    """Describe an object by its contents. Unlike the sizes of tensor arguments, the sizes of tensors inside an object
    are part of its description.
    """
    own: list[int] = []
    described = tuple((str(key), _described(part, own, depth + 1)) for key, part in list(parts)[:_MOST_ITEMS])
    return kind.__qualname__, described, tuple(own)


def _tensor(tensor: torch.Tensor, sizes: list[int]) -> Any:
    kind = type(tensor)
    if tensor.layout is not torch.strided or tensor.is_nested:
        return kind.__qualname__, str(tensor.layout), str(tensor.dtype)
    sizes.extend(tensor.shape)
    flags = tensor.requires_grad, tensor.is_contiguous(), tensor.is_leaf
    return kind.__qualname__, str(tensor.dtype), tensor.device.type, tensor.dim(), flags


@dataclass
class AutomaticDynamic:
    """A prediction of the effect of torch's automatic dynamic shapes on a sequence of calls: which calls compile, and
    which calls reuse a graph.

    The first graph has fixed sizes. If a size differs from its value in the previous graph, it is dynamic in the new
    graph and in all later graphs, except that the values 0 and 1 are always fixed. If two dynamic sizes are equal when
    a graph is created, the graph can be reused only if they are equal again.
    """

    _graphs: list[tuple[tuple[bool, int], ...]] = field(default_factory=list)
    _last: tuple[int, ...] = ()
    _varying: set[int] = field(default_factory=set)

    @property
    def recompiles(self) -> int:
        """The number of recompiles in the sequence."""
        return max(0, len(self._graphs) - 1)

    def covers(self, sizes: tuple[int, ...]) -> bool:
        """Return whether an existing graph can be reused for these sizes."""
        return any(_fits(graph, sizes) for graph in self._graphs)

    def add(self, sizes: tuple[int, ...]) -> None:
        """Record the sizes of the next call."""
        if self.covers(sizes):
            return
        if self._graphs:
            pairs = enumerate(zip(self._last, sizes, strict=True))
            self._varying |= {place for place, (before, now) in pairs if before != now}
        graph = tuple((place in self._varying and size > 1, size) for place, size in enumerate(sizes))
        self._graphs.append(graph)
        self._last = sizes


def _fits(graph: tuple[tuple[bool, int], ...], sizes: tuple[int, ...]) -> bool:
    symbols: dict[int, int] = {}
    for (is_dynamic, made_with), size in zip(graph, sizes, strict=True):
        if not is_dynamic:
            if size != made_with:
                return False
        elif size < 2 or symbols.setdefault(made_with, size) != size:
            return False
    return True
