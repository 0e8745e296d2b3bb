"""Write a call as source. Tensors are described by shape, dtype and range, and objects by the arguments with which they
were created; the contents of tensors and objects are never written.
"""

from __future__ import annotations

import enum
import math
import re
import sys
import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from .._torch.attributes import is_a
from .public_targets import Called

_MOST_ITEMS = 32
_STRING = re.compile(r"[\w .+:/-]{0,40}")


class NotWritten(Exception):
    """Raised when a value cannot be written as source without copying its contents; the message is the reason."""


@dataclass(frozen=True)
class WrittenCall:
    """The source of a call's arguments, and whether the test made the call without gradients."""

    args: tuple[str, ...]
    kwargs: tuple[str, ...] = ()
    no_grad: bool = False

    @property
    def needs_call(self) -> bool:
        """Whether the source must be ``call(...)`` instead of only the arguments. A call with keyword arguments,
        without arguments or without gradients requires ``call(...)``.
        """
        return self.no_grad or bool(self.kwargs) or not self.args

    def __str__(self) -> str:
        """Return the call as an item of ``calls=``."""
        return f"call({', '.join([*self.args, *self.kwargs])})" + (".under(torch.no_grad)" if self.no_grad else "")


@dataclass(frozen=True)
class Recipe:
    """The source of a call. ``target`` is the expression that creates the target, and ``module`` is the module that
    this expression requires.
    """

    module: str
    target: str
    call: WrittenCall


@dataclass
class Recipes:
    """Writes calls as Python source. ``owns`` returns whether a module belongs to the package.

    A string is written only if it occurs in the package's code, because any other string may be a secret that the test
    uses.
    """

    owns: Callable[[str], bool]
    _made: dict[int, str] = field(default_factory=dict)
    _strings: set[str] = field(default_factory=set)
    _modules: int = -1

    def note_made(self, value: Any, name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        """Record the arguments with which an instance of one of the package's classes is created."""
        try:
            given, named = self._arguments(args, kwargs)
            self._made[id(value)] = f"{name}({', '.join([*given, *named])})"
        except NotWritten:  # an earlier object may have had the same id
            self._made.pop(id(value), None)

    def forget_made(self) -> None:
        """Forget all objects at the end of a test, because their ids may be reused."""
        self._made.clear()

    def of(self, called: Called, module: str) -> Recipe:
        """Return the source of a call.

        Raises:
            NotWritten: If the call cannot be written without copying test data.
        """
        args, kwargs = self._arguments(called.args, called.kwargs)
        return Recipe(module, self._target(called), WrittenCall(args, kwargs, not torch.is_grad_enabled()))

    def _target(self, called: Called) -> str:
        if is_a(called.target, types.MethodType) and not isinstance(called.target.__self__, type):
            kind, _, method = called.name.rpartition(".")
            return f"{self._object(called.target.__self__, kind)}.{method}"
        if is_a(called.target, (types.FunctionType, types.MethodType)):
            return called.name
        return self._object(called.target, called.name)

    def _object(self, value: Any, name: str) -> str:
        takes_nothing = type(value).__init__ in (torch.nn.Module.__init__, object.__init__)
        text = self._made.get(id(value), f"{name}()" if takes_nothing else "")
        if not text:
            raise NotWritten(f"the code that created the {type(value).__name__} is unknown")
        if is_a(value, torch.nn.Module):
            dtypes = {p.dtype for p in value.parameters() if p.is_floating_point()}
            if len(dtypes) == 1 and dtypes != {torch.get_default_dtype()}:
                text += f".to({dtypes.pop()})"
            text += "" if value.training else ".eval()"
        return text

    def _arguments(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[tuple[str, ...], tuple[str, ...]]:
        named = tuple(f"{name}={self._value(value)}" for name, value in kwargs.items())
        return tuple(map(self._value, args)), named

    def _value(self, value: Any) -> str:
        kind = type(value)
        if kind in (bool, int, float, type(None)):
            if kind is float and not math.isfinite(value):
                return f'float("{value}")'
            return repr(value)
        if kind is str:
            return self._string(value)
        if is_a(value, torch.Tensor):
            return _tensor(value)
        if is_a(value, (torch.dtype, torch.memory_format, torch.layout)):
            return str(value)
        if is_a(value, torch.device):
            return f'torch.device("{value}")'
        if kind in (list, tuple) and len(value) <= _MOST_ITEMS:
            items = ", ".join(map(self._value, value))
            return f"[{items}]" if kind is list else f"({items}{',' if len(value) == 1 else ''})"
        if kind is torch.Size:
            return f"torch.Size({list(value)})"
        if kind is dict and len(value) <= _MOST_ITEMS:
            return "{" + ", ".join(f"{self._value(key)}: {self._value(one)}" for key, one in value.items()) + "}"
        if id(value) in self._made:
            return self._object(value, "")
        if is_a(value, enum.Enum) and (name := self._public_name(kind)):
            return f"{name}.{value._name_}"
        raise NotWritten(
            f"an argument has type {kind.__name__}: a test could recreate the argument only from a copy of its contents"
        )

    def _public_name(self, kind: type) -> str:
        """Return the full name of a class, such as ``package.module.Class``. If several public modules of the package
        contain the class, use the module with the shortest name. Return an empty string if no public module contains
        the class.
        """
        modules = [name for name in list(sys.modules) if self.owns(name) and "._" not in name]
        homes = [name for name in modules if vars(sys.modules[name]).get(kind.__name__) is kind]
        return f"{min(homes, key=len)}.{kind.__name__}" if homes else ""

    def _string(self, value: str) -> str:
        if self._modules != len(sys.modules):  # modules that were imported since then contain more strings
            self._modules = len(sys.modules)
            self._strings = _strings_of(self.owns)
        if value in self._strings and _STRING.fullmatch(value):
            return repr(value).replace("'", '"')  # ``_STRING`` allows no quotes inside the string
        raise NotWritten("an argument is a string that does not occur in the package's code")


def _tensor(tensor: torch.Tensor) -> str:
    """Write a tensor as source: ``tensor(2, 3, dtype=torch.int64, high=10)``."""
    if type(tensor) not in (torch.Tensor, torch.nn.Parameter) or tensor.layout is not torch.strided or tensor.is_nested:
        raise NotWritten(f"an argument is a {type(tensor).__name__} with layout {tensor.layout}")
    if tensor.dim() > 12:
        raise NotWritten("an argument is a tensor with more than 12 dimensions")
    parts = [*map(str, tensor.shape)]
    if tensor.dtype is not torch.float32:
        parts.append(f"dtype={tensor.dtype}")
    if tensor.device.type != "cpu":
        parts.append(f'device="{tensor.device.type}"')
    if tensor.numel() and tensor.dtype is not torch.bool and not tensor.is_complex():
        with torch.no_grad():
            numbers = tensor.detach().double()
            low, high = float(numbers.min()), float(numbers.max())
        parts += _bounds(low, high, tensor.is_floating_point())
    if tensor.requires_grad:
        parts.append("grad=True")
    return f"tensor({', '.join(parts)})"


def _bounds(low: float, high: float, floating: bool) -> list[str]:
    """Return the arguments ``low`` and ``high`` for values in this range. The range is exact for integers. For
    floating-point numbers, the bounds are widened to a power of ten, or to 255, the maximum in images.
    """
    if floating:
        if low >= 0 and high <= 1:
            return []
        sizes = (1, 10, 100, 255, 10**3, 10**4, 10**5)
        size = next((size for size in sizes if size >= max(abs(low), abs(high))), 10**6)
        return [*([f"low={-size}"] if low < 0 else []), f"high={size}"]
    parts = [f"low={int(low)}"] if low else []
    return [*parts, f"high={int(high) + 1}"]


def _strings_of(owns: Callable[[str], bool]) -> set[str]:
    """Return the strings that occur in the package's functions and in the default values of their arguments."""
    found: set[str] = set()
    for name, module in list(sys.modules.items()):
        if not owns(name):
            continue
        for value in list(vars(module).values()):
            held = list(vars(value).values()) if issubclass(type(value), type) else [value]
            for one in held:
                one = one.__func__ if type(one) in (staticmethod, classmethod) else one
                if type(one) is types.FunctionType and owns(str(one.__module__)):
                    found |= _strings_in(one.__code__)
                    defaults = [*(one.__defaults__ or ()), *(one.__kwdefaults__ or {}).values()]
                    found |= {default for default in defaults if type(default) is str}
    return found


def _strings_in(value: Any) -> set[str]:
    if type(value) is str:
        return {value}
    if type(value) in (tuple, frozenset):
        return set[str]().union(*map(_strings_in, value))
    if type(value) is types.CodeType:
        return set[str]().union(*map(_strings_in, value.co_consts))
    return set()
