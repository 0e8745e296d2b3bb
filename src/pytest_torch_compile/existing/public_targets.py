"""Map code objects to the public targets of a package. A target is the function, method or class that a code object
belongs to, together with its public name.
"""

from __future__ import annotations

import inspect
import sys
import types
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any

import torch

from .._torch.compiled import uncompiled
from .._torch.user_lines import function_name

_TESTS = ("tests", "test", "conftest")
# torch calls the methods of these classes with arguments that only torch can pass.
_CALLED_BY_TORCH = (torch.autograd.Function, torch.jit.ScriptModule)
_OF_EVERY_MODULE = frozenset(vars(torch.nn.Module))


@dataclass(frozen=True)
class Called:
    """A call to a public target, read from the frame of the call. ``is_made`` is true if the call is the ``__init__``
    call that creates the object ``target``.
    """

    name: str
    target: Any
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    is_made: bool = False


@dataclass
class _Entry:
    """One entry point into the package: a function and, for a method, its class."""

    name: str
    function: types.FunctionType
    owner: type | None = None
    kind: str = "function"


@dataclass
class Targets:
    """The entry points into one package, keyed by the id of the code object that runs first. ``modules`` contains the
    names of the modules that define the targets. ``patterns`` selects targets by public name.
    """

    package: str
    patterns: tuple[str, ...] = ()
    hears_of_objects: bool = False
    by_code: dict[int, list[_Entry]] = field(default_factory=dict)
    modules: set[str] = field(default_factory=set)
    _classes: dict[type, str] = field(default_factory=dict)
    _compiled: set[tuple[str, str]] = field(default_factory=set)
    _other_names: dict[str, list[str]] = field(default_factory=dict)
    _modules: int = -1
    _loaded: int = -1

    def refresh(self) -> None:
        """Search the package's modules for targets again, if modules have been imported since the last search."""
        if len(sys.modules) == self._modules:
            return
        self._modules = len(sys.modules)
        loaded = {name: module for name, module in list(sys.modules.items()) if self.owns(name)}
        if len(loaded) == self._loaded:
            return
        self._loaded = len(loaded)
        self.by_code.clear()
        self.modules.clear()
        self._classes.clear()
        self._compiled = set(_compiled_functions(loaded))
        for value, name, others in _public_names(self.package, loaded):
            self._other_names[name] = others
            if isinstance(value, type):
                self._classes[value] = name
            elif isinstance(value, types.FunctionType):
                self._add(_Entry(name, value))
        for kind, name in self._classes.items():
            for entry in _methods(kind, name):
                self._add(entry)
            if self.hears_of_objects and isinstance(made := vars(kind).get("__init__"), types.FunctionType):
                self._add(_Entry(name, made, kind, "init"))
        # Every nn.Module is called through this function.
        self._add(_Entry("", torch.nn.Module.__call__, kind="module"))

    def codes(self) -> list[types.CodeType]:
        """Return the code objects whose calls are observed."""
        return [entries[0].function.__code__ for entries in self.by_code.values()]

    def owns(self, module: str) -> bool:
        """Return whether a module belongs to the package and is not one of its tests."""
        if not module.startswith(self.package):
            return False
        first, *rest = module.split(".")
        return first == self.package and not any(part in _TESTS or part.startswith("test_") for part in rest)

    def compiles(self, code: types.CodeType) -> bool:
        """Return whether a code object belongs to a function or module that the package itself compiles, in one of its
        modules or classes.
        """
        return (code.co_filename, function_name(code.co_name)) in self._compiled

    def is_compiled(self, target: Any) -> bool:
        """Return whether the package compiles a target."""
        code = _code_of(target) if self._compiled else None
        return code is not None and self.compiles(code)

    def called(self, frame: types.FrameType) -> Called | None:
        """Return the target and the arguments of the call that started this frame; None if the target is not public."""
        entries = self.by_code.get(id(frame.f_code), [])
        values = frame.f_locals
        entry = next((entry for entry in entries if len(entries) == 1 or _closes_over(entry.function, values)), None)
        if entry is None:
            return None
        args, kwargs = _arguments(entry.function, values)
        if entry.kind == "function":
            return self._narrowed(Called(entry.name, entry.function, args, kwargs))
        if not args:
            return None
        owner, args = args[0], args[1:]
        if entry.kind == "init":
            return Called(entry.name, owner, args, kwargs, is_made=True) if type(owner) is entry.owner else None
        kind = owner if entry.kind == "classmethod" else type(owner)
        name = self._classes.get(kind) or entry.name.rpartition(".")[0]
        if entry.kind == "module" and (kind not in self._classes or issubclass(kind, torch.jit.ScriptModule)):
            return None
        if entry.kind == "module" or entry.function.__name__ == "__call__":
            public = next((self._classes[base] for base in kind.__mro__ if base in self._classes), "")
            return self._narrowed(Called(public, owner, args, kwargs)) if public else None
        method = types.MethodType(entry.function, owner)
        return self._narrowed(Called(f"{name}.{entry.function.__name__}", method, args, kwargs))

    def module_of(self, name: str) -> str:
        """Return the longest prefix of a public name that is an imported module. The full name is never returned,
        because a function may have the same name as a module.
        """
        module = name.rpartition(".")[0]
        while module and module not in sys.modules:
            module = module.rpartition(".")[0]
        return module

    def _narrowed(self, called: Called) -> Called | None:
        return called if not self.patterns or self._is_chosen(called.name) else None

    def _is_chosen(self, name: str) -> bool:
        """Return whether a pattern matches any public name of a target, including names that are not shown in the
        table.
        """
        owner, _, method = name.rpartition(".")
        names = [name, *self._other_names.get(name, []), *(f"{o}.{method}" for o in self._other_names.get(owner, []))]
        return any(
            one == pattern or one.startswith(f"{pattern}.") or fnmatchcase(one, pattern)
            for one in names
            for pattern in self.patterns
        )

    def _add(self, entry: _Entry) -> None:
        self.modules.add(str(entry.function.__globals__.get("__name__")))
        known = self.by_code.setdefault(id(entry.function.__code__), [])
        if not any(other.function is entry.function for other in known):
            known.append(entry)


def _public_names(package: str, modules: Mapping[str, types.ModuleType]) -> Iterator[tuple[Any, str, list[str]]]:
    """Yield the functions and classes that the package defines, each with its shortest public name and its other public
    names.
    """
    found: dict[int, tuple[Any, list[str]]] = {}
    for path, module in modules.items():
        if any(part.startswith("_") for part in path.split(".")):
            continue
        for key, value in list(vars(module).items()):
            if key.startswith("_") or not isinstance(value, (type, types.FunctionType)):
                continue
            home = getattr(inspect.unwrap(value), "__module__", None)
            if not isinstance(home, str) or home.partition(".")[0] != package:
                continue
            found.setdefault(id(value), (value, []))[1].append(f"{path}.{key}")
    for value, names in found.values():
        first, *others = sorted(names, key=lambda name: (name.count("."), len(name)))
        yield value, first, others


def _compiled_functions(modules: Mapping[str, types.ModuleType]) -> Iterator[tuple[str, str]]:
    """Yield the file and name of each function whose compiled form is a variable of a module or a class, such as a
    function that ``torch.compile`` decorates.
    """
    for path, module in modules.items():
        values = list(vars(module).values())
        classes = [value for value in values if isinstance(value, type) and value.__module__ == path]
        for value in [*values, *(part for kind in classes for part in list(vars(kind).values()))]:
            held = value.__func__ if isinstance(value, (staticmethod, classmethod)) else value
            if uncompiled(held) is not held and (code := _code_of(held)) is not None:
                yield code.co_filename, code.co_name


def _code_of(target: Any) -> types.CodeType | None:
    """Return the code of a function or of a module's ``forward``, even if it is compiled."""
    original = uncompiled(target)
    function = uncompiled(type(original).forward) if isinstance(original, torch.nn.Module) else original
    code = getattr(function, "__code__", None)
    return code if isinstance(code, types.CodeType) else None


def _methods(kind: type, name: str) -> Iterator[_Entry]:
    """Yield the public methods that a class itself defines, and the class's ``__call__`` method, even if a base class
    defines ``__call__``. Calls through ``torch.nn.Module.__call__`` are observed separately.
    """
    if issubclass(kind, _CALLED_BY_TORCH):
        return
    inherited = next((vars(base)["__call__"] for base in kind.__mro__ if "__call__" in vars(base)), None)
    is_modules = "__call__" in vars(kind) or inherited is torch.nn.Module.__call__
    if isinstance(inherited, types.FunctionType) and not is_modules:
        yield _Entry(f"{name}.__call__", inherited, kind, "method")
    for key, value in list(vars(kind).items()):
        if key.startswith("_") and key != "__call__":
            continue
        if issubclass(kind, torch.nn.Module) and key in _OF_EVERY_MODULE and key != "__call__":
            continue
        if isinstance(value, types.FunctionType):
            yield _Entry(f"{name}.{key}", value, kind, "method")
        elif isinstance(value, staticmethod) and isinstance(value.__func__, types.FunctionType):
            yield _Entry(f"{name}.{key}", value.__func__, kind)
        elif isinstance(value, classmethod) and isinstance(value.__func__, types.FunctionType):
            yield _Entry(f"{name}.{key}", value.__func__, kind, "classmethod")


def _closes_over(function: types.FunctionType, values: Mapping[str, Any]) -> bool:
    """Return whether a frame's variables include this function's closure. Functions that were created by the same
    decorator share a code object, and only their closures distinguish them.
    """
    names = function.__code__.co_freevars
    for name, cell in zip(names, function.__closure__ or (), strict=True):
        try:
            if values.get(name) is not cell.cell_contents:
                return False
        except ValueError:
            return False
    return True


def _arguments(function: types.FunctionType, values: Mapping[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return a call's arguments, without trailing or keyword-only arguments that are equal to their default values."""
    code = function.__code__
    positional = code.co_varnames[: code.co_argcount]
    named = code.co_varnames[code.co_argcount : code.co_argcount + code.co_kwonlyargcount]
    rest = code.co_argcount + code.co_kwonlyargcount
    more: tuple[Any, ...] = ()
    if code.co_flags & inspect.CO_VARARGS:
        more = values[code.co_varnames[rest]]
        rest += 1
    keywords = dict(values[code.co_varnames[rest]]) if code.co_flags & inspect.CO_VARKEYWORDS else {}
    defaults = dict(zip(reversed(positional), reversed(function.__defaults__ or ()), strict=False))
    args = [values[name] for name in positional]
    if not more:
        while args and len(args) > code.co_posonlyargcount:
            name = positional[len(args) - 1]
            if name not in defaults or args[-1] is not defaults[name]:
                break
            args.pop()
    own = function.__kwdefaults__ or {}
    keywords |= {name: values[name] for name in named if name not in own or values[name] is not own[name]}
    return (*args, *more), keywords
