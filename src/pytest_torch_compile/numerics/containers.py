"""Compare the structure of containers, and the values that are not tensors."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator
from collections.abc import Set as AbstractSet
from typing import Any

import torch

from .._torch.attributes import has
from .._torch.object_text import repr_of
from ..findings import CompileUsageError
from .tree import FUNCTIONS, KEYS, Flat, Node, data_attributes, defines_equality


def structure_differences(eager: Flat, compiled: Flat) -> Iterator[tuple[str, str]]:
    """Yield a path and a message for each difference in structure: a path that exists in only one run, a different
    type, a different length or different keys. Subpaths of a yielded path are skipped.
    """
    found: list[str] = []
    for path in dict.fromkeys([*eager.nodes, *compiled.nodes]):
        if is_below(path, found):
            continue
        line = _node_difference(path, eager.nodes.get(path), compiled.nodes.get(path))
        if line:
            found.append(path)
            yield path, line


def is_below(path: str, others: Iterable[str]) -> bool:
    """Return whether a path is a subpath of any of ``others``."""
    return any(path.startswith(other) and path[len(other) : len(other) + 1] in (".", "[") for other in others)


def _node_difference(path: str, eager: Node | None, compiled: Node | None) -> str:
    if eager is None or compiled is None:
        leg, other = ("compiled code", "eager") if eager is None else ("eager", "compiled code")
        return f"{path} exists in {leg}, but not in {other}"
    left, right = _type_name(eager), _type_name(compiled)
    both_tensors = isinstance(eager.value, torch.Tensor) and isinstance(compiled.value, torch.Tensor)
    if left != right or (eager.kind is not compiled.kind and not both_tensors):
        if left == right:
            left, right = f"{eager.kind.__module__}.{left}", f"{compiled.kind.__module__}.{right}"
        return f"{path} is {left} in eager, but {right} in compiled code"
    if eager.is_leaf != compiled.is_leaf or eager.shape != compiled.shape:
        keys = [node.shape.removeprefix(KEYS) for node in (eager, compiled)]
        if keys[0] != eager.shape and sorted(keys[0].split(", ")) == sorted(keys[1].split(", ")):
            return f"{path} has its keys in the order {keys[0]} in eager, but {keys[1]} in compiled code"
        return f"{path} has {eager.shape or 'no items'} in eager, but {compiled.shape or 'no items'} in compiled code"
    return ""


def _type_name(node: Node) -> str:
    if isinstance(node.value, torch.Tensor):
        return "a tensor"
    return "None" if node.kind is type(None) else node.kind.__qualname__


def as_tensor(leaf: Any) -> torch.Tensor | None:
    """Convert a tensor, a NumPy array or scalar, or a Python float or complex number to a tensor. Return None for any
    other value.
    """
    if isinstance(leaf, torch.Tensor):
        return leaf
    if isinstance(leaf, (float, complex)) and not isinstance(leaf, bool):
        # Python numbers usually come from ``tensor.item()``, so they have the precision of float32.
        dtype = torch.complex64 if isinstance(leaf, complex) else torch.float32
        return torch.tensor(leaf, dtype=dtype, device="cpu")
    if type(leaf).__module__ != "numpy" or not hasattr(leaf, "dtype"):
        return None
    try:
        return torch.as_tensor(leaf if getattr(leaf, "ndim", 0) == 0 else leaf.copy(), device="cpu")
    except (TypeError, ValueError, RuntimeError):  # a dtype that torch does not support
        return None


def plain_leaf_difference(path: str, eager: Any, compiled: Any, *, strict: bool) -> str:
    """Return a message if two values that are not tensors differ, otherwise an empty string.

    Raises:
        CompileUsageError: If ``strict`` is set and the objects cannot be compared.
    """
    if eager is compiled:
        return ""
    equal = _equal(eager, compiled)
    if equal is None and strict:
        raise CompileUsageError(f"{path} has type {type(eager).__name__}, which cannot be compared{_way_out(eager)}")
    return f"{path} is {repr_of(eager)} in eager, but {repr_of(compiled)} in compiled code" if equal is False else ""


def _way_out(value: Any) -> str:
    """Return why a value cannot be compared, if its class is at fault, and what to do."""
    if has(type(value), "__next__"):
        return ": check a function that returns the items, such as lambda *args: list(target(*args))"
    if has(type(value), "__await__"):
        return ": check a function that is not async, such as lambda *args: asyncio.run(target(*args))"
    if isinstance(value, AbstractSet):
        return ", because it contains tensors: return a list instead"
    fix = ", because its __eq__ raises an exception: correct __eq__" if defines_equality(value) else ": define __eq__"
    return f"{fix} in the class, or do not return the object from the checked function"


def _equal(eager: Any, compiled: Any) -> bool | None:
    """Return whether two objects are equal, or None if they cannot be compared."""
    if isinstance(eager, AbstractSet) and any(isinstance(item, torch.Tensor) for item in eager):
        return None
    if isinstance(eager, FUNCTIONS):  # each run may have a separate copy
        if type(eager) is not type(compiled):
            return False
        names = [(getattr(f, "__module__", None), getattr(f, "__qualname__", f.__name__)) for f in (eager, compiled)]
        return names[0] == names[1]
    if isinstance(eager, (torch.dtype, torch.layout, torch.memory_format, enum.Enum)):
        return False
    if not defines_equality(eager):
        has_state = hasattr(eager, "__dict__") and not data_attributes(eager)
        return True if has_state and type(eager) is type(compiled) else None
    is_array = type(eager).__module__ == "numpy" and hasattr(eager, "dtype") and type(compiled) is type(eager)
    if is_array and (eager.shape, eager.dtype) != (compiled.shape, compiled.dtype):
        return False
    try:  # NaN is not equal to itself
        if is_array:
            return bool(((eager == compiled) | ((eager != eager) & (compiled != compiled))).all())
        return bool(eager == compiled) or bool(eager != eager and compiled != compiled)
    except Exception:  # __eq__ may raise any exception
        return None
