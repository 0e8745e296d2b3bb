"""Flatten any Python structure into containers and leaves (all other values), with readable paths."""

from __future__ import annotations

import dataclasses
import enum
import types
import weakref
from collections import OrderedDict, deque
from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from typing import Any

import torch

from .._torch.attributes import CLOSED_PACKAGES, attributes, has, is_a

KEYS = "keys "
FUNCTIONS = (types.FunctionType, types.MethodType, types.BuiltinFunctionType, type, types.ModuleType)


@dataclasses.dataclass
class Flat:
    """A flattened structure: its containers and leaves (all other values) by path, in order."""

    nodes: dict[str, Node] = dataclasses.field(default_factory=dict)

    @property
    def leaves(self) -> dict[str, Any]:
        """The values that are not containers, by path."""
        return {path: node.value for path, node in self.nodes.items() if node.is_leaf}

    @property
    def tensors(self) -> dict[str, torch.Tensor]:
        """The tensors, by path."""
        return {path: leaf for path, leaf in self.leaves.items() if isinstance(leaf, torch.Tensor)}


@dataclasses.dataclass
class Node:
    """A container, or a leaf (any other value). If the node is a container, ``value`` is None, and ``shape`` describes
    the container's length or keys.
    """

    kind: type
    is_leaf: bool
    value: Any = None
    shape: str = ""


def flatten(value: Any, root: str = "output") -> Flat:
    """Flatten ``value``. A reference to an enclosing container is not followed. A shared object appears under each of
    its paths.
    """
    flat = Flat()
    _walk(value, root, flat, frozenset())
    return flat


def _walk(value: Any, path: str, flat: Flat, above: frozenset[int]) -> None:
    if id(value) in above:
        flat.nodes[path] = Node(type(value), False, shape="a reference to an enclosing container")
        return
    children = _children(value, path)
    if children is None:
        flat.nodes[path] = Node(type(value), True, value)
        return
    shape, entries = children
    flat.nodes[path] = Node(type(value), False, shape=shape)
    for child_path, child in entries:
        _walk(child, child_path, flat, above | {id(value)})


def _children(value: Any, path: str) -> tuple[str, Iterable[tuple[str, Any]]] | None:
    """Return a container's description and its entries; None if ``value`` is not a container."""
    leaves = (torch.Tensor, str, bytes, int, float, complex, torch.Size, enum.Enum, *FUNCTIONS)
    if value is None or is_a(value, leaves):
        return None
    if is_a(value, weakref.ref):
        return "a weak reference", [(f"{path}()", weakref.ref.__call__(value))]
    if is_a(value, torch.nn.Module):
        tensors = dict(value.named_parameters()) | dict(value.named_buffers())
        return f"a module with {_names(tensors)}", ((f"{path}.{k}", v) for k, v in tensors.items())
    if is_mapping(value) and (pairs := _pairs(value)) is not None:
        # Use dots for a dataclass even if the class is a mapping as well (transformers' ModelOutput).
        dotted = has(type(value), "__dataclass_fields__")
        keys = [_key(position, key) for position, (key, _) in enumerate(pairs)]
        texts = (f".{text}" if dotted else f"[{text!r}]" if quoted else f"[{text}]" for text, quoted in keys)
        entries = [(f"{path}{text}", item) for text, (_, item) in zip(texts, pairs, strict=True)]
        return f"{KEYS}{_names(text for text, _ in keys)}", entries
    if is_a(value, (list, tuple, deque)):
        items = list(next(k for k in (list, tuple, deque) if is_a(value, k)).__iter__(value))
        fields = type(value)._fields if is_a(value, tuple) and has(type(value), "_fields") else None
        named = [f"{path}.{name}" for name in fields] if fields else [f"{path}[{i}]" for i in range(len(items))]
        return f"length {len(items)}", zip(named, items, strict=True)
    if type(value).__module__ == "numpy" and getattr(value, "ndim", False) and value.dtype == object:
        return f"shape {value.shape}", ((f"{path}[{i}]", item) for i, item in enumerate(value.flat))
    if is_a(value, (set, frozenset)) or any(kind is AbstractSet for kind in type(value).__mro__):
        return None
    if has(type(value), "__dataclass_fields__"):
        own = attributes(value)
        kept = {name: own[name] for name in type(value).__dataclass_fields__ if name in own}
        return f"fields {_names(kept)}", ((f"{path}.{k}", v) for k, v in kept.items())
    # An object of another class is compared by its attributes, unless the class defines ``__eq__``.
    data = {} if str(type(value).__module__).partition(".")[0] in CLOSED_PACKAGES else data_attributes(value)
    if not data or (defines_equality(value) and not _holds_tensors(value, 6)):
        return None
    return f"attributes {_names(data)}", ((f"{path}.{k}", v) for k, v in data.items())


def _pairs(value: Any) -> list[tuple[Any, Any]] | None:
    """Return the keys and values of a mapping, bypassing the methods of dict subclasses. Return None if a mapping that
    is not a dict raises an exception.
    """
    if is_a(value, OrderedDict):
        return list(OrderedDict.items(value))
    if is_a(value, dict):
        return list(dict.items(value))
    try:
        # Use keys(), because iteration may differ: a TensorDict iterates over its batch.
        return [(key, value[key]) for key in value.keys()]  # noqa: SIM118
    except Exception:  # the object is then compared by its attributes
        return None


def _key(position: int, key: Any) -> tuple[Any, bool]:
    """Return the key to show in a path, and whether to quote it. Plain values are shown unchanged, and any other key is
    shown as its class and position.
    """
    plain = type(type(key)) is type and isinstance(key, (str, int, float, bytes, type(None), torch.dtype))
    whole = plain or (type(key) is tuple and all(type(part) in (str, int, float, bool) for part in key))
    return (key, True) if whole else (f"{type(key).__name__} {position}", False)


def is_mapping(value: Any) -> bool:
    """Return whether a value is a mapping, or has the methods of a mapping."""
    if is_a(value, type):
        return False
    return is_a(value, dict) or all(has(type(value), name) for name in ("keys", "items", "__getitem__"))


def defines_equality(value: Any) -> bool:
    """Return whether the value's class, or a base class other than ``object``, defines ``__eq__``."""
    return any("__eq__" in kind.__dict__ for kind in type(value).__mro__[:-1])


def data_attributes(value: Any) -> dict[str, Any]:
    """Return an object's attributes, except functions, classes and Python modules."""
    return {k: v for k, v in attributes(value).items() if isinstance(k, str) and not isinstance(v, FUNCTIONS)}


def _holds_tensors(value: Any, depth: int) -> bool:
    if is_a(value, torch.Tensor):
        return True
    if depth == 0 or value is None or is_a(value, (str, bytes, int, float, complex)):
        return False
    if is_mapping(value):
        children = [item for _, item in _pairs(value) or ()]
    elif is_a(value, (list, tuple, deque)):
        children = list(next(k for k in (list, tuple, deque) if is_a(value, k)).__iter__(value))
    else:
        children = list(data_attributes(value).values())
    return any(_holds_tensors(child, depth - 1) for child in children)


def _names(names: Iterable[Any]) -> str:
    return ", ".join(map(str, names)) or "none"
