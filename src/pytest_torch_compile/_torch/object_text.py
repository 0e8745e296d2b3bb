"""Names and texts of users' objects for messages.

A class may define ``__repr__``, ``__str__`` or ``__getattr__``, and this code may be slow, have side effects or raise
exceptions. ``name_of`` and ``text_of`` do not run such code. ``repr_of`` and ``message_of`` run it, but do not fail.
Imports neither torch nor pytest.
"""

from __future__ import annotations

import enum
import types
from itertools import islice
from typing import Any

from .attributes import attributes

ROUTINES = (
    types.FunctionType, types.BuiltinFunctionType, types.MethodType, types.MethodDescriptorType,
    types.WrapperDescriptorType, types.MethodWrapperType, types.ClassMethodDescriptorType,
)  # fmt: skip
_PLAIN = (type(None), bool, int, float, complex, str, bytes, range, slice, type(Ellipsis), type(NotImplemented))
_BRACKETS: dict[Any, tuple[str, str]] = {list: ("[", "]"), tuple: ("(", ")"), set: ("{", "}"), frozenset: ("{", "}")}
_OF_TORCH = {("torch", name) for name in ("dtype", "device", "Size", "layout", "memory_format")}
MAX_ITEMS = 20  # items of a container that are shown


def name_of(value: Any) -> str:
    """Return the qualified name of a function, method or class. For any other object, return the name that
    ``functools.wraps`` stored in the object, or else the qualified name of the object's class.
    """
    if issubclass(type(value), type):
        return str(type.__getattribute__(value, "__qualname__"))
    if issubclass(type(value), ROUTINES):
        return str(getattr(value, "__qualname__", None) or value.__name__)
    stored = attributes(value)
    name = stored.get("__qualname__", stored.get("__name__"))
    return name if type(name) is str else name_of(type(value))


def text_of(value: Any, most: int = 40) -> str:
    """Return a text for a value with at most ``most`` characters: ``repr`` for plain values and for containers of plain
    values, ``ClassName(field=...)`` for dataclasses, and ``ClassName(...)`` for other objects.
    """
    text = _text(value, 3)
    return text if len(text) <= most else f"{text[: most - 3]}..."


def _text(value: Any, depth: int) -> str:
    kind = type(value)
    # A metaclass may define ``__eq__`` and ``__hash__``, which a search for the class would call.
    is_known = type(kind) is type
    if is_known and (kind in _PLAIN or (kind.__module__, kind.__name__) in _OF_TORCH or _is_numpy_scalar(kind)):
        return repr(value)
    if issubclass(kind, enum.Enum):
        return f"{name_of(kind)}.{value._name_}"
    if issubclass(kind, (type, *ROUTINES)):
        return name_of(value)
    if is_known and depth and kind in _BRACKETS and value:
        texts = [_text(item, depth - 1) for item in islice(value, MAX_ITEMS)] + ["..."] * (len(value) > MAX_ITEMS)
        start, end = _BRACKETS[kind]
        return f"{start}{', '.join(texts)}{',' if kind is tuple and len(value) == 1 else ''}{end}"
    if is_known and kind in _BRACKETS and not value:
        return repr(value)
    if depth and kind is dict:
        items = islice(value.items(), MAX_ITEMS)
        return f"{{{', '.join(f'{_text(key, 0)}: {_text(item, depth - 1)}' for key, item in items)}}}"
    if depth and any("__dataclass_fields__" in vars(base) for base in kind.__mro__):
        texts = [f"{name}={_text(item, depth - 1)}" for name, item in islice(attributes(value).items(), MAX_ITEMS)]
        return f"{name_of(kind)}({', '.join(texts) or '...'})"
    return f"{name_of(kind)}(...)"


def _is_numpy_scalar(kind: type) -> bool:
    return kind.__module__ == "numpy" and not hasattr(kind, "__array_finalize__")


def repr_of(value: Any, most: int = 80) -> str:
    """Return ``repr(value)``, shortened to ``most`` characters, or the name of the class if ``repr`` fails."""
    try:
        text = repr(value)
    except Exception as error:  # a user's __repr__ may raise any exception
        text = f"<{name_of(type(value))}, whose __repr__ raises {name_of(type(error))}>"
    return text if len(text) <= most else f"{text[: most - 3]}..."


def message_of(error: BaseException) -> str:
    """Return ``str(error)``, or a description of the failure if ``str`` fails."""
    try:
        return str(error)
    except Exception as other:  # a user's __str__ may raise any exception
        return f"no message, because __str__ raises {name_of(type(other))}"


def text_of_error(error: BaseException) -> str:
    """Return the class and the message of an exception: ``ValueError: wrong``."""
    return f"{type(error).__name__}: {message_of(error)}"
