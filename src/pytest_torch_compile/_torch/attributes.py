"""Read and set an object's attributes without running the code of its class: no properties, no ``__getattr__``, no
``__setattr__`` and no ``__class__`` that a class may define. Imports neither torch nor pytest.
"""

from __future__ import annotations

import sys
import threading
import types
from contextlib import suppress
from operator import is_
from typing import Any

from .class_cache import cached_by_class

# The contents of objects from these packages are not traversed: they contain no model state, or too many other objects
# (a logger refers to all other loggers). The modules that are left out define simple containers: SimpleNamespace,
# OrderedDict, deque and Namespace.
CLOSED_PACKAGES = (sys.stdlib_module_names - {"__main__", "types", "collections", "argparse"}) | {
    "numpy", "pytest", "_pytest", "pluggy",
}  # fmt: skip


def is_a(value: Any, kinds: type | tuple[type, ...]) -> bool:
    """Return whether an object is an instance of a class. Unlike ``isinstance``, this function does not evaluate the
    object's ``__class__``.
    """
    return issubclass(type(value), kinds)


def has(kind: type, name: str) -> bool:
    """Return whether a class has an attribute, without calling its metaclass's ``__getattr__``."""
    return any(name in base.__dict__ for base in kind.__mro__)


def attributes(value: Any) -> dict[str, Any]:
    """Return the instance attributes of an object, from ``__dict__`` and ``__slots__``, in order of assignment."""
    by_name = dict(_instance_dict(value))
    for slot in _slots(type(value)):
        with suppress(AttributeError):  # the slot has no value
            by_name[slot.__name__] = slot.__get__(value, type(value))
    return by_name


def set_attributes(value: Any, held: dict[str, Any]) -> None:
    """Set the instance attributes of an object to exactly those that ``attributes`` returned earlier."""
    slots = {slot.__name__: slot for slot in _slots(type(value))}
    for name, slot in slots.items():
        if name in held:
            slot.__set__(value, held[name])
        else:
            with suppress(AttributeError):  # the slot has no value
                slot.__delete__(value)
    table, wanted = _instance_dict(value), {name: held[name] for name in held if name not in slots}
    if not same_values(table, wanted):
        table.clear()
        table.update(wanted)


def same_values(one: dict[Any, Any], other: dict[Any, Any]) -> bool:
    """Return whether two dicts contain the same objects under the same keys in the same order."""
    return len(one) == len(other) and all(map(is_, one, other)) and all(map(is_, one.values(), other.values()))


def _instance_dict(value: Any) -> dict[str, Any]:
    """Return the ``__dict__`` of an object; an empty dict if it has none."""
    # ``object.__getattribute__`` cannot access the attributes of a ``threading.local``.
    base: Any = threading.local if is_a(value, threading.local) else object
    try:
        table: dict[str, Any] = base.__getattribute__(value, "__dict__")
    except (AttributeError, TypeError):
        return {}
    return table


@cached_by_class
def _slots(kind: type) -> list[types.MemberDescriptorType]:
    """Return the descriptors of the slots of a class and its base classes."""
    entries = [entry for base in kind.__mro__ if "__slots__" in base.__dict__ for entry in base.__dict__.values()]
    return [entry for entry in entries if type(entry) is types.MemberDescriptorType]
