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

from .._torch.identity import DYNAMOS_OWN
from ..numerics.tree import attributes
from .reach import EMPTY, container_kind, is_open, is_open_kind, items

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
        self.value = value

    def take(self) -> Any:
        """What the object holds now: a tensor's numbers, or references to items and attributes."""
        value = self.value
        if isinstance(value, torch.Tensor):
            return value.detach().clone(), value.grad if value.is_leaf else None
        if isinstance(value, torch.Generator):
            return value.get_state()
        if _is_array(value):
            return value.copy()
        return items(value) if isinstance(value, _CONTAINERS) else None, _own_attributes(value)

    def put(self, held: Any) -> None:
        """Give the object this content again, where it has another."""
        value = self.value
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
    return {name: held for name, held in attributes(value).items() if not str(name).startswith(DYNAMOS_OWN)}


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


def _equal(tensor: torch.Tensor, other: torch.Tensor) -> bool:
    if tensor.layout is not torch.strided:  # torch compares no sparse tensors
        tensor, other = tensor.to_dense(), other.to_dense()
    return bool(torch.equal(tensor, other))


def _put_tensor(tensor: torch.Tensor, numbers: torch.Tensor, gradient: torch.Tensor | None) -> None:
    with torch.inference_mode(tensor.is_inference()), torch.no_grad():
        if tensor.shape != numbers.shape or tensor.dtype != numbers.dtype:
            tensor.data = numbers.clone()
        elif not _equal(tensor, numbers):
            tensor.copy_(numbers)
    if tensor.is_leaf:
        tensor.grad = gradient


def _same_objects(before: list[Any], after: list[Any]) -> bool:
    """Whether two results of ``items`` hold the same objects in the same order; pairs are made at each reading."""
    return len(before) == len(after) and all(
        one is other or (type(one) is type(other) is tuple and len(one) == len(other) and all(map(is_, one, other)))
        for one, other in zip(before, after, strict=True)
    )


Holder = Variable | Constant | ClassAttributes | Mutable


def named_parts(holder: Holder) -> dict[object, Any]:
    """What a holder refers to, by name: a value, attributes, items. Numbers of tensors are not among it."""
    if isinstance(holder, (Variable, Constant)):
        return {"": holder.take()}
    if isinstance(holder, ClassAttributes):
        return {("class", name): value for name, value in holder.take().items()}
    value = holder.value
    parts: dict[object, Any] = {("attribute", name): held for name, held in _own_attributes(value).items()}
    if isinstance(value, dict):
        parts |= {("item", key): item for key, item in items(value)}
    elif isinstance(value, (set, list, deque)):
        numbered = zip(value, items(value), strict=True) if isinstance(value, set) else enumerate(items(value))
        parts |= {("item", name): item for name, item in numbered}
    return parts


def with_parts(holder: Holder, held: Any, changed: dict[object, Any]) -> Any:
    """``held``, which a holder gave earlier, with these parts in place of its own; ``EMPTY`` takes a part away."""
    if isinstance(holder, (Variable, Constant)):
        return changed[""]
    if isinstance(holder, ClassAttributes):
        new = {name: value for (_, name), value in cast("dict[tuple[str, Any], Any]", changed).items()}
        return {name: value for name, value in {**held, **new}.items() if value is not EMPTY}
    content, own = held
    by_kind: dict[str, dict[Any, Any]] = {"attribute": {}, "item": {}}
    for (kind, name), value in cast("dict[tuple[str, Any], Any]", changed).items():
        by_kind[kind][name] = value
    own = {name: value for name, value in {**own, **by_kind["attribute"]}.items() if value is not EMPTY}
    items_changed = by_kind["item"]
    if isinstance(holder.value, dict):
        content = [(key, item) for key, item in {**dict(content), **items_changed}.items() if item is not EMPTY]
    elif isinstance(holder.value, set):
        content = [item for item in {**dict.fromkeys(content), **items_changed} if items_changed.get(item) is not EMPTY]
    elif content is not None:
        longer = [item for place, item in items_changed.items() if place >= len(content)]
        content = [items_changed.get(place, item) for place, item in enumerate(content)] + longer
        content = [item for item in content if item is not EMPTY]
    return content, own
