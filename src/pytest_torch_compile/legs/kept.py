"""What a target keeps apart from parameters and buffers, as one flat structure that two legs can be compared by."""

from __future__ import annotations

import functools
import types
from collections import deque
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import torch
from torch.nn.parameter import is_lazy

from ..numerics import Flat, Node
from .holders import is_mutable
from .reach import items, parts
from .state import SharedState

_PLAIN = frozenset({bool, int, float, complex, str, bytes, type(None)})  # most of what a model keeps
_HOLDERS = (tuple, types.MethodType, functools.partial)
# What holds more values than this, or holds them deeper, is no state of a model: it is left out from there on.
MOST_VALUES = 50_000
DEEPEST = 50


@dataclass(frozen=True)
class Kept:
    """What a leg keeps: ``own`` in its copy of the target, ``everything`` with what it shares with the other legs."""

    own: Flat
    everything: Flat


def kept(target: Any, shared: SharedState, covered: Collection[int]) -> Kept:
    """Attributes, closed-over variables and what the code names, with everything that they hold.

    Each object is met once, at its first path. Tensors whose ids are in ``covered`` are compared elsewhere. What is
    shared with other legs is copied, since it will change when the leg has run.
    """
    walk = _Walk(shared, frozenset(covered))
    if not shared.is_shared(target):
        walk.enter(target, "", "variable" if isinstance(target, types.FunctionType) else "attribute")
    own = Flat(dict(walk.flat.nodes))
    for label, value in shared.variables():
        walk.visit(value, label)
    return Kept(own, walk.flat)


class _Walk:
    def __init__(self, shared: SharedState, covered: frozenset[int]) -> None:
        self.flat = Flat()
        self._shared = shared
        self._covered = covered
        self._seen: set[int] = set()

    def enter(self, value: Any, path: str, kind: str) -> None:
        """The parts of the target itself, which are named without it."""
        self._seen.add(id(value))
        for text, part in parts(value):
            if not text or (isinstance(part, torch.nn.Module) and isinstance(value, torch.nn.Module)):
                self.enter(part, f"{path}{text}", kind) if id(part) not in self._seen else None
            else:
                self.visit(part, f"{kind} {(path + text).lstrip('.')}")

    def visit(self, value: Any, path: str, depth: int = 0) -> None:
        """One value and everything it holds."""
        if type(value) in _PLAIN:
            self.flat.nodes[path] = Node(type(value), True, value)
            return
        if id(value) in self._covered or len(self.flat.nodes) >= MOST_VALUES or depth > DEEPEST:
            return
        if isinstance(value, torch.Tensor):
            if is_lazy(value) or not self._shared.is_readable(value):
                return
            self.flat.nodes[path] = Node(type(value), True, self._own(value))
            if value.is_leaf and value.grad is not None:
                self.flat.nodes[f"{path}.grad"] = Node(type(value), True, self._own(value.grad))
            return
        if isinstance(value, torch.Generator):
            self.flat.nodes[path] = Node(type(value), True, value.get_state())
            return
        if isinstance(value, (set, frozenset)) or not (is_mutable(value) or isinstance(value, _HOLDERS)):
            self.flat.nodes[path] = Node(type(value), True, set(value) if isinstance(value, set) else value)
            return
        if id(value) in self._seen:
            return
        self._seen.add(id(value))
        self.flat.nodes[path] = Node(type(value), False, shape=_shape(value))
        if isinstance(value, types.FunctionType) and self._shared.is_shared(value):
            return  # what it closes over is among the shared variables, under one name in every leg
        for text, part in parts(value):
            self.visit(part, f"{path}{text}", depth + 1)

    def _own(self, tensor: torch.Tensor) -> torch.Tensor:
        return tensor.detach().clone() if self._shared.is_shared(tensor) else tensor


def _shape(value: Any) -> str:
    if isinstance(value, dict):
        keys = [key for key, _ in items(value)]
        plain = [str(key) for key in keys if isinstance(key, (str, int, float, tuple, type(None)))]
        return f"keys {', '.join(plain)}" if plain and len(plain) == len(keys) else f"length {len(keys)}"
    return f"length {len(value)}" if isinstance(value, (list, tuple, deque)) else ""
