"""Any Python structure as leaves with readable paths, and what its containers are."""

from __future__ import annotations

import dataclasses
import enum
import types
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from contextlib import suppress
from typing import Any

import torch

KEYS = "keys "
FUNCTIONS = (types.FunctionType, types.MethodType, types.BuiltinFunctionType, type, types.ModuleType)


@dataclasses.dataclass
class Flat:
    """A structure taken apart: containers and leaves by path, in the order they were met."""

    nodes: dict[str, Node] = dataclasses.field(default_factory=dict)

    @property
    def leaves(self) -> dict[str, Any]:
        """The leaves by path."""
        return {path: node.value for path, node in self.nodes.items() if node.is_leaf}

    @property
    def tensors(self) -> dict[str, torch.Tensor]:
        """The leaves that are tensors, by path."""
        return {path: leaf for path, leaf in self.leaves.items() if isinstance(leaf, torch.Tensor)}


@dataclasses.dataclass
class Node:
    """One container (``shape`` says which, ``value`` is None) or one leaf."""

    kind: type
    is_leaf: bool
    value: Any = None
    shape: str = ""


def flatten(value: Any, root: str = "output") -> Flat:
    """Take ``value`` apart. Cycles are cut; shared objects appear under each of their paths."""
    flat = Flat()
    _walk(value, root, flat, frozenset())
    return flat


def _walk(value: Any, path: str, flat: Flat, above: frozenset[int]) -> None:
    if id(value) in above:
        flat.nodes[path] = Node(type(value), False, shape="a reference back to one of its own containers")
        return
    children = _children(value, path)
    if children is None:
        flat.nodes[path] = Node(type(value), True, value)
        return
    shape, entries = children
    flat.nodes[path] = Node(type(value), False, shape=shape)
    for child_path, child in entries:
        _walk(child, child_path, flat, above | {id(value)})


def _children(value: Any, path: str) -> tuple[str, Iterator[tuple[str, Any]]] | None:
    """What kind of container ``value`` is and what it holds; None for a leaf."""
    leaves = (torch.Tensor, str, bytes, int, float, complex, torch.Size, enum.Enum, *FUNCTIONS)
    if value is None or isinstance(value, leaves):
        return None
    if isinstance(value, torch.nn.Module):
        tensors = dict(value.named_parameters()) | dict(value.named_buffers())
        return f"a module with {_names(tensors)}", ((f"{path}.{k}", v) for k, v in tensors.items())
    if is_mapping(value):
        # Iterating is not the same as asking for the keys: a TensorDict iterates over its batch.
        keys = list(value.keys())
        # A dataclass that is also a mapping (transformers' ModelOutput) reads best with dots.
        dotted = dataclasses.is_dataclass(value)
        return f"{KEYS}{_names(keys)}", ((f"{path}.{k}" if dotted else f"{path}[{k!r}]", value[k]) for k in keys)
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return f"length {len(value)}", ((f"{path}.{k}", getattr(value, k)) for k in value._fields)
    if isinstance(value, (list, tuple, deque)):
        return f"length {len(value)}", ((f"{path}[{i}]", v) for i, v in enumerate(value))
    if isinstance(value, AbstractSet):
        return None
    if dataclasses.is_dataclass(value):
        fields = [f.name for f in dataclasses.fields(value) if hasattr(value, f.name)]
        return f"fields {_names(fields)}", ((f"{path}.{k}", getattr(value, k)) for k in fields)
    # An object of any other class: its attributes, unless the class says itself when two are equal.
    data = data_attributes(value) if type(value).__module__ != "numpy" else {}
    if not data or (defines_equality(value) and not _holds_tensors(value, 6)):
        return None
    return f"attributes {_names(data)}", ((f"{path}.{k}", v) for k, v in data.items())


def is_mapping(value: Any) -> bool:
    """Whether it has keys with values: mappings, and classes that look like one without saying so."""
    looks = all(callable(getattr(type(value), name, None)) for name in ("keys", "items", "__getitem__"))
    return isinstance(value, Mapping) or (looks and not isinstance(value, type))


def defines_equality(value: Any) -> bool:
    """Whether the class says itself when two of its objects are equal."""
    return any("__eq__" in kind.__dict__ for kind in type(value).__mro__[:-1])


def attributes(value: Any) -> dict[str, Any]:
    """The instance attributes of an object, from ``__dict__`` and ``__slots__``, in the order they were assigned.

    They are read past properties and ``__getattr__`` of the object's class.
    """
    try:
        by_name = dict(object.__getattribute__(value, "__dict__"))
    except (AttributeError, TypeError):
        by_name = {}
    for kind in type(value).__mro__:
        slots = (slot for slot in kind.__dict__.values() if type(slot) is types.MemberDescriptorType)
        for slot in slots if "__slots__" in kind.__dict__ else ():
            with suppress(AttributeError):  # not assigned
                by_name[slot.__name__] = slot.__get__(value, type(value))
    return by_name


def data_attributes(value: Any) -> dict[str, Any]:
    """The attributes that are not callables."""
    return {k: v for k, v in attributes(value).items() if isinstance(k, str) and not isinstance(v, FUNCTIONS)}


def _holds_tensors(value: Any, depth: int) -> bool:
    if isinstance(value, torch.Tensor):
        return True
    if depth == 0 or value is None or isinstance(value, (str, bytes, int, float, complex)):
        return False
    if is_mapping(value):
        children = [value[key] for key in value.keys()]  # noqa: SIM118
    elif isinstance(value, (list, tuple, deque)):
        children = list(value)
    else:
        children = list(data_attributes(value).values())
    return any(_holds_tensors(child, depth - 1) for child in children)


def _names(names: Iterable[Any]) -> str:
    return ", ".join(map(str, names)) or "none"
