"""Holders of objects that a run may write to. A holder compares, reads and restores the content of one object."""

from __future__ import annotations

import contextvars
import functools
import types
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain
from operator import is_
from typing import Any, Protocol

import torch

from .._torch.attributes import attributes, is_a, same_values, set_attributes
from .._torch.class_cache import cached_by_class
from .._torch.tensor_state import Extent, TensorState, below_subclasses, extent, holds, pieces
from .file_copies import FileCopy
from .reach import EMPTY, container_kind, is_open, items
from .stateful import stateful

Key = tuple[Any, ...]
Replace = Callable[[Any], Any]


class Holder(Protocol):
    """Access to one object whose content a run may change."""

    @property
    def key(self) -> Key:
        """A key that identifies the content. Two holders of the same content have equal keys."""

    def has(self, content: Any) -> bool:
        """Return whether the current content equals ``content``, which ``read`` returned earlier."""

    def read(self) -> Any:
        """Return the current content: references to objects, or a copy of data."""

    def put(self, content: Any) -> None:
        """Replace the current content with ``content``."""

    def replaced(self, content: Any, replace: Replace) -> Any:
        """Return ``content`` with ``replace`` applied to each object in it. If ``replace`` changes no object, return
        ``content`` itself.
        """


@dataclass
class Variable:
    """A global variable, a closed-over variable, a context variable, or a function default. ``assign`` sets the
    variable; for a function default, which is never replaced, ``assign`` is None.
    """

    key: Key
    label: str
    read: Callable[[], Any]
    assign: Callable[[Any], None] | None

    def has(self, content: Any) -> bool:
        """Return whether the value of the variable is the object ``content``."""
        return self.read() is content

    def put(self, content: Any) -> None:
        """Set the variable; ``EMPTY`` deletes it."""
        if self.assign is not None and not self.has(content):
            self.assign(content)

    def replaced(self, content: Any, replace: Replace) -> Any:
        """Return the value with ``replace`` applied; for a function default, return the value unchanged."""
        return replace(content) if self.assign is not None else content


def global_variable(label: str, namespace: dict[str, Any], name: str) -> Variable:
    """Create the holder for a variable of a Python module."""

    def assign(value: Any) -> None:
        if value is EMPTY:
            namespace.pop(name, None)
        else:
            namespace[name] = value

    return Variable(("global", id(namespace), name), label, lambda: namespace.get(name, EMPTY), assign)


def closed_over(label: str, cell: types.CellType) -> Variable:
    """Create the holder for a closed-over variable of a function."""

    def read() -> Any:
        try:
            return cell.cell_contents
        except ValueError:
            return EMPTY

    def assign(value: Any) -> None:
        if value is EMPTY:
            del cell.cell_contents
        else:
            cell.cell_contents = value

    return Variable(("cell", id(cell)), label, read, assign)


def context_variable(variable: contextvars.ContextVar[Any]) -> Variable:
    """Create the holder for a context variable. To restore a variable that was never set, the holder sets it to its
    default value. Without a default value, the variable keeps its new value, because Python cannot unset it.
    """

    def read() -> Any:
        if (value := variable.get(EMPTY)) is not EMPTY:
            return value
        try:
            return contextvars.Context().run(variable.get)
        except LookupError:  # the variable has no default value
            return EMPTY

    def assign(value: Any) -> None:
        if value is not EMPTY:
            variable.set(value)

    return Variable(("context", id(variable)), "", read, assign)


class Attributes:
    """A holder of an object's attributes and class."""

    def __init__(self, value: Any) -> None:
        self.value = value
        self.key = ("attributes", id(value))

    def has(self, content: tuple[type, dict[str, Any]]) -> bool:
        """Return whether the object has this class and exactly these attributes with these values."""
        return type(self.value) is content[0] and same_values(attributes(self.value), content[1])

    def read(self) -> tuple[type, dict[str, Any]]:
        """Return the class, and a dict of the attributes."""
        return type(self.value), attributes(self.value)

    def put(self, content: tuple[type, dict[str, Any]]) -> None:
        """Set the class and attributes, bypassing the assignment methods of modules and frozen dataclasses."""
        kind, held = content
        if type(self.value) is not kind:
            object.__setattr__(self.value, "__class__", kind)
        set_attributes(self.value, held)

    def replaced(self, content: tuple[type, dict[str, Any]], replace: Replace) -> tuple[type, dict[str, Any]]:
        """Return the class, and the attributes with ``replace`` applied to each value."""
        held = _replaced_values(content[1], replace)
        return content if held is content[1] else (content[0], held)


def _replaced_values(held: dict[str, Any], replace: Replace) -> dict[str, Any]:
    changed = {name: new for name, value in held.items() if (new := replace(value)) is not value}
    return {**held, **changed} if changed else held


class ClassAttributes:
    """A holder of the attributes of a class, without methods and the descriptors of Python and torch. Descriptors that
    a user defined may store values.
    """

    def __init__(self, kind: type) -> None:
        self.kind = kind
        self.key = ("class", id(kind))

    def has(self, content: dict[str, Any]) -> bool:
        """Return whether the class has exactly these attributes with these values."""
        return same_values(self.read(), content)

    def read(self) -> dict[str, Any]:
        """Return the current attributes, by name."""
        # ``_abc_impl`` contains an abstract class's cache for ``isinstance``.
        return {
            name: value
            for name, value in vars(self.kind).items()
            if not (name.startswith("__") or name == "_abc_impl" or (is_descriptor(value) and not is_open(value)))
        }

    def put(self, content: dict[str, Any]) -> None:
        """Replace the attributes of the class with these attributes, bypassing its metaclass."""
        now = self.read()
        for name in now.keys() - content.keys():
            type.__delattr__(self.kind, name)
        for name, value in content.items():
            if name not in now or now[name] is not value:
                type.__setattr__(self.kind, name, value)

    def replaced(self, content: dict[str, Any], replace: Replace) -> dict[str, Any]:
        """Return the attributes with ``replace`` applied to each value."""
        return _replaced_values(content, replace)

    def labelled(self) -> Iterator[tuple[str, Any]]:
        """Yield a label and the value of each attribute."""
        yield from ((f"class attribute {self.kind.__name__}.{name}", value) for name, value in self.read().items())


def is_descriptor(value: Any) -> bool:
    """Return whether a class attribute is a descriptor."""
    return _is_descriptor_kind(type(value))


@cached_by_class
def _is_descriptor_kind(kind: type) -> bool:
    return any("__get__" in base.__dict__ for base in kind.__mro__)


class Items:
    """A holder of the items of a list, deque, set or dict, in their order."""

    def __init__(self, container: Any) -> None:
        self.value = container
        self.key = ("items", id(container))

    def has(self, content: list[Any]) -> bool:
        """Return whether the container contains exactly these objects in this order."""
        return _same_objects(items(self.value), content, pairs=is_a(self.value, dict))

    def read(self) -> list[Any]:
        """Return the current items. The items of a mapping are (key, value) pairs."""
        return items(self.value)

    def put(self, content: list[Any]) -> None:
        """Set the items, bypassing the methods of subclasses."""
        if self.has(content):
            return
        kind = container_kind(self.value)
        kind.clear(self.value)
        if is_a(self.value, dict):
            for key, item in content:
                kind.__setitem__(self.value, key, item)
        else:
            (kind.update if is_a(self.value, set) else kind.extend)(self.value, content)

    def replaced(self, content: list[Any], replace: Replace) -> list[Any]:
        """Return the items with ``replace`` applied to each item; in a mapping, only to the values."""
        pairs = is_a(self.value, dict)
        new = [(item[0], replace(item[1])) if pairs else replace(item) for item in content]
        return content if _same_objects(new, content, pairs=pairs) else new


def _same_objects(before: list[Any], after: list[Any], *, pairs: bool) -> bool:
    """Return whether two results of ``items`` contain the same objects in the same order. The ``pairs`` of a mapping
    are compared by their elements, because each read creates new pairs.
    """
    if len(before) != len(after):
        return False
    return all(map(is_, chain.from_iterable(before), chain.from_iterable(after)) if pairs else map(is_, before, after))


class TensorObject:
    """A holder of a tensor's state other than its data: which memory it uses, and its gradient, flags, hooks and
    attributes.
    """

    def __init__(self, tensor: torch.Tensor) -> None:
        self.value = tensor
        self.key = ("tensor", id(tensor))

    def has(self, content: TensorState) -> bool:
        """Return whether the tensor's current state equals ``content``."""
        return content.is_as(TensorState.of(self.value))

    def read(self) -> TensorState:
        """Return the current state."""
        return TensorState.of(self.value)

    def put(self, content: TensorState) -> None:
        """Restore the tensor to the state in ``content``."""
        content.put(self.value)

    def replaced(self, content: TensorState, replace: Replace) -> TensorState:
        """Return the state unchanged, because the objects in a tensor's state are never replaced."""
        return content


class Memory:
    """A holder (see ``Holder``) of a range of bytes in a storage, which contains the data of one or more tensors. If
    ``on_host`` is true, copies of the bytes are kept in host memory.
    """

    def __init__(self, bytes_: Extent, on_host: bool) -> None:
        self.extent = bytes_
        self.key = ("memory", *bytes_.key, bytes_.start, bytes_.stop)
        self._size = bytes_.storage.nbytes()
        self._on_host = on_host

    def has(self, content: torch.Tensor | FileCopy) -> bool:
        """Return whether the storage contains exactly ``content``."""
        return self.extent.storage.nbytes() == self._size and holds(self.extent, _loaded(content))

    def read(self) -> torch.Tensor:
        """Return a copy of the bytes, or an empty tensor if the storage was freed."""
        if self.extent.storage.nbytes() != self._size:
            return torch.empty(0, dtype=torch.uint8, device="cpu")
        live = self.extent.live()
        return live.to("cpu", copy=True) if self._on_host else live.clone()

    def put(self, content: torch.Tensor | FileCopy) -> None:
        """Write the bytes to the storage; an empty ``content`` frees the storage."""
        content = _loaded(content)
        if content.numel() == 0:
            self.extent.storage.resize_(0)
            return
        if self.extent.storage.nbytes() != self._size:
            self.extent.storage.resize_(self._size)
        self.extent.live().copy_(content)

    def replaced(self, content: torch.Tensor | FileCopy, replace: Replace) -> torch.Tensor | FileCopy:
        """Return the content unchanged, because a copy of bytes contains no references to objects."""
        return content


def _loaded(content: torch.Tensor | FileCopy) -> torch.Tensor:
    return content.loaded() if isinstance(content, FileCopy) else content


def holders_of(value: Any, on_host: Callable[[Extent], bool]) -> Iterator[Holder]:
    """Yield a holder for each part of an object's content that code can change.

    Raises:
        Unreadable: If the data of a tensor cannot be accessed.
    """
    if is_a(value, torch.Tensor):
        yield TensorObject(value)
        with below_subclasses():
            extents = [found for piece in pieces(value) if (found := extent(piece)) is not None]
            hooks = value._backward_hooks, value._post_accumulate_grad_hooks
        yield from (Memory(found, on_host(found)) for found in extents)
        yield from (Items(table) for table in hooks if table is not None)
        return
    if is_a(value, (list, dict, set)) or (container_kind(value) is not None and not is_a(value, (tuple, frozenset))):
        yield Items(value)
    if is_a(value, contextvars.ContextVar):
        yield context_variable(value)
    elif (known := stateful(value)) is not None:
        yield known
    elif is_a(value, torch.nn.Module):
        yield Attributes(value)
        # A module's dicts of parameters, submodules and hooks get separate holders, because ``reached`` does not yield
        # these dicts.
        yield from (Items(table) for table in attributes(value).values() if is_a(table, (dict, set)))
    elif is_a(value, functools.partial):
        yield Items(value.keywords)
    elif is_a(value, types.FunctionType) or is_open(value):
        yield Attributes(value)


def is_mutable(value: Any) -> bool:
    """Return whether an object has content that code can change in place and that a snapshot can restore."""
    return next(holders_of(value, lambda memory: False), None) is not None
