"""What holds shared state: a variable, a class, an object that can be changed in place. Each is read and put back."""

from __future__ import annotations

import functools
import types
from collections import deque
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass
from operator import is_
from typing import Any, cast

import torch

from ..numerics.tree import attributes
from .reach import container_kind, is_open, is_open_kind, items

_CONTAINERS = (list, deque, set, dict)
_MUTABLE_KINDS = (torch.Tensor, torch.nn.Module, torch.Generator, types.FunctionType, *_CONTAINERS)


@dataclass
class Variable:
    """One variable of a Python module or a closure, with how to read and assign it."""

    label: str
    take: Callable[[], Any]
    assign: Callable[[Any], None]

    def put(self, value: Any) -> None:
        """Give the variable this value, if it has another; ``EMPTY`` removes it."""
        if value is not self.take():
            self.assign(value)


@dataclass
class Constant:
    """A value that has a name and cannot be assigned: a default of a function. What it holds can change."""

    label: str
    value: Any

    def take(self) -> Any:
        """The value."""
        return self.value

    def put(self, value: Any) -> None:
        """There is nothing to assign."""


class ClassAttributes:
    """The attributes of a class that are neither methods nor descriptors; a leg may assign new ones."""

    def __init__(self, kind: type) -> None:
        self._kind = kind

    def take(self) -> dict[str, Any]:
        """The attributes now, by name."""
        return {
            name: value
            for name, value in vars(self._kind).items()
            if not (name.startswith("__") or name == "_abc_impl" or hasattr(type(value), "__get__"))
        }

    def put(self, held: dict[str, Any]) -> None:
        """Give the class these attributes, and no others."""
        now = self.take()
        for name in now.keys() - held.keys():
            delattr(self._kind, name)
        for name, value in held.items():
            if name not in now or now[name] is not value:
                setattr(self._kind, name, value)

    def labelled(self) -> Iterator[tuple[str, Any]]:
        """The attributes with their labels."""
        yield from ((f"class attribute {self._kind.__name__}.{name}", value) for name, value in self.take().items())


class Mutable:
    """An object whose content a leg may change in place."""

    def __init__(self, value: Any) -> None:
        self._value = value

    def take(self) -> Any:
        """What the object holds now: a tensor's numbers, or references to items and attributes."""
        value = self._value
        if isinstance(value, torch.Tensor):
            return value.detach().clone(), value.grad if value.is_leaf else None
        if isinstance(value, torch.Generator):
            return value.get_state()
        if _is_array(value):
            return value.copy()
        return items(value) if isinstance(value, _CONTAINERS) else None, _own_attributes(value)

    def put(self, held: Any) -> None:
        """Give the object this content again, where it has another."""
        value = self._value
        if isinstance(value, torch.Tensor):
            _put_tensor(value, *held)
        elif isinstance(value, torch.Generator):
            value.set_state(held)
        elif _is_array(value):
            value[...] = held
        else:
            content, own = held
            if content is not None and not _same_objects(items(value), content):
                _put_items(value, content)
            _put_attributes(value, own)


def is_mutable(value: Any) -> bool:
    """Whether the content of an object can be changed in place, as far as that is looked into."""
    return _is_mutable_kind(cast("Hashable", type(value)))


@functools.lru_cache(maxsize=4096)
def _is_mutable_kind(kind: Any) -> bool:
    return issubclass(kind, _MUTABLE_KINDS) or is_open_kind(kind) or _is_array_kind(kind)


def _is_array(value: Any) -> bool:
    return _is_array_kind(type(value))


def _is_array_kind(kind: type) -> bool:
    return kind.__module__ == "numpy" and kind.__name__ == "ndarray"


def _own_attributes(value: Any) -> dict[str, Any]:
    if not (isinstance(value, (torch.nn.Module, types.FunctionType)) or is_open(value)):
        return {}
    # What dynamo notes down on functions and objects is its own business.
    return {k: v for k, v in attributes(value).items() if not str(k).startswith(("_torchdynamo", "_dynamo"))}


def _put_attributes(value: Any, held: dict[str, Any]) -> None:
    now = _own_attributes(value)
    for name in now.keys() - held.keys():
        object.__delattr__(value, name)
    for name, attribute in held.items():
        if name not in now or now[name] is not attribute:
            object.__setattr__(value, name, attribute)  # past what a module or a frozen dataclass makes of it


def _put_items(container: Any, content: list[Any]) -> None:
    """Give a container this content, past what a subclass makes of writing it."""
    kind = container_kind(container)
    kind.clear(container)
    if isinstance(container, dict):
        for key, item in content:
            kind.__setitem__(container, key, item)
    else:
        (kind.update if isinstance(container, set) else kind.extend)(container, content)


def _put_tensor(tensor: torch.Tensor, numbers: torch.Tensor, gradient: torch.Tensor | None) -> None:
    with torch.inference_mode(tensor.is_inference()), torch.no_grad():
        if tensor.shape != numbers.shape or tensor.dtype != numbers.dtype:
            tensor.data = numbers.clone()
        elif not torch.equal(tensor, numbers):
            tensor.copy_(numbers)
    if tensor.is_leaf:
        tensor.grad = gradient


def _same_objects(before: list[Any], after: list[Any]) -> bool:
    """Whether two results of ``items`` hold the same objects in the same order; pairs are made at each reading."""
    return len(before) == len(after) and all(
        one is other or (type(one) is type(other) is tuple and len(one) == len(other) and all(map(is_, one, other)))
        for one, other in zip(before, after, strict=True)
    )


def is_same(before: Any, after: Any) -> bool:
    """Whether two readings of one holder gave the same: the same objects, equal numbers."""
    if before is after or type(before) is not type(after):
        return before is after
    if isinstance(before, tuple):
        return len(before) == len(after) and all(map(is_same, before, after))
    if isinstance(before, list):
        return _same_objects(before, after)
    if isinstance(before, dict):
        return _same_objects(items(before), items(after))
    if isinstance(before, torch.Tensor):
        return bool(before.dtype == after.dtype and torch.equal(before, after))
    return _is_array(before) and bool((before == after).all())


Holder = Variable | Constant | ClassAttributes | Mutable
