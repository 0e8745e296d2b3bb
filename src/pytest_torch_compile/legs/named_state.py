"""Find state to which code refers by name: global variables, attributes of classes and functions, and the objects that
these variables and attributes contain.

State to which code refers by name is found during the eager run: when a function starts, the names in its code are
resolved before the code can change anything.
"""

from __future__ import annotations

import dis
import functools
import sys
import types
from collections.abc import Iterable
from typing import Any

import torch

from .._torch.attributes import is_a
from .._torch.user_lines import file_of_code, is_guard, is_own
from .holders import ClassAttributes, Variable, closed_over, global_variable, is_mutable
from .late_imports import LateImport
from .reach import cells, lives_in_torch, reached
from .snapshot import Snapshot

_STORE_GLOBAL = dis.opmap["STORE_GLOBAL"]


class NamedState:
    """A listener that is notified of each code object before the code runs. The listener adds the variables and
    attributes to which the code refers by name to a snapshot.

    Changes that an import makes (for example to a registry) are kept, because Python imports a module only once.
    """

    def __init__(self, snapshot: Snapshot, target: Any, roots: Iterable[Any]) -> None:
        self._snapshot = snapshot
        self._target = target
        held = list(reached([target]))
        called = target
        while is_a(called, (functools.partial, types.MethodType)):
            called = called.func if is_a(called, functools.partial) else called.__func__
        own = called if is_a(called, types.FunctionType) else type(called)
        homes = (type(value).__module__ for value in held if is_a(value, torch.nn.Module))
        self._packages = frozenset(home.partition(".")[0] for home in (own.__module__ or "", *homes))
        self._codes: dict[int, types.CodeType] = {}
        self._noted: set[int] = set()
        self._listens = False
        self._import: LateImport | None = None
        for value in reached(roots):
            self._note(value)

    def note_target(self, target: Any) -> None:
        """Add the state of a target that ``factory`` created for one run."""
        self._target = target
        self._note_content([target])

    def listening(self, listens: bool) -> None:
        """Turn recording on or off. Recording is off while the snapshot is read or restored, because reading and
        restoring can run user code whose state must not be recorded.
        """
        self._listens = listens

    def code_runs(self, code: types.CodeType, namespace: dict[str, Any]) -> bool:
        """Record the state to which a code object refers, before the code runs. If recording is off, return False, and
        do nothing.
        """
        if self._listens:
            self._note_code(code, namespace)
        return self._listens

    def import_begins(self) -> None:
        """Record the state before a module is imported."""
        self._import = LateImport(self._snapshot)

    def import_ends(self) -> None:
        """Keep the import's changes in all runs and in the caller's state."""
        if self._import is not None:
            self._import.end()
        self._import = None

    def _note(self, value: Any) -> None:
        """Add the state of an object that is reachable from the target: a function's variables, or the attributes of
        the object's class.
        """
        if is_a(value, types.FunctionType):
            self._note_function(value)
        elif not isinstance(value, type):
            self._note_class(type(value))

    def _note_code(self, code: types.CodeType, namespace: dict[str, Any]) -> None:
        """Add the global variables to which user code refers, the variables' contents, and the functions that the code
        calls.
        """
        own = is_own(file_of_code(code, namespace), self._packages) and not is_guard(code, namespace)
        if id(code) in self._codes or not own:
            return
        self._codes[id(code)] = code
        names = names_in(code)
        for name in sorted(names & namespace.keys()):
            self._note_named(name, namespace, names)
        # Every second byte of the bytecode is an instruction. Without this one, the code creates no global variables.
        if _STORE_GLOBAL in code.co_code[::2]:
            for name in names - namespace.keys():
                self._note_variable(f"global {name}", namespace, name)

    def _note_named(self, name: str, namespace: dict[str, Any], names: set[str]) -> None:
        value = namespace[name]
        if isinstance(value, type):
            self._note_class(value)
        elif isinstance(value, types.ModuleType):
            if is_own(_file_of_module(value), self._packages):
                inner = vars(value)
                for attribute in sorted(names & inner.keys()):
                    if not isinstance(inner[attribute], (types.FunctionType, type, types.ModuleType)):
                        self._note_variable(f"global {name}.{attribute}", inner, attribute)
        elif is_a(value, types.FunctionType) and not is_own(
            file_of_code(value.__code__, value.__globals__), self._packages
        ):
            self._note_content([value])  # a library's wrapper around a user function
        else:
            self._note_variable(f"global {name}", namespace, name)

    def _note_variable(self, label: str, namespace: dict[str, Any], name: str) -> None:
        self._snapshot.add(global_variable(label, namespace, name))
        self._note_content([namespace.get(name)])

    def _note_content(self, values: Iterable[Any]) -> None:
        values = list(values)
        self._snapshot.note(*values)
        for held in reached(values, closed=self._noted):
            self._note(held)

    def _note_function(self, function: types.FunctionType) -> None:
        """Add the closed-over variables of a function, its defaults, and the state that its code refers to."""
        if id(function) in self._noted or lives_in_torch(function):
            return
        self._noted.add(id(function))
        for name, cell in cells(function):
            if name != "__class__":
                self._snapshot.add(closed_over(self._label("variable", name, function), cell))
        self._note_defaults(function)
        self._snapshot.note(function)
        self._note_code(function.__code__, function.__globals__)

    def _note_defaults(self, function: types.FunctionType) -> None:
        """Add a function's mutable defaults. A call can mutate a default, but does not replace it."""
        parameters = function.__code__.co_varnames[: function.__code__.co_argcount]
        named = zip(reversed(parameters), reversed(function.__defaults__ or ()), strict=False)
        for name, default in (*named, *(function.__kwdefaults__ or {}).items()):
            if is_mutable(default):
                label = self._label("default", name, function)
                key = ("default", id(function), name)
                self._snapshot.add(Variable(key, label, functools.partial(lambda value: value, default), None))

    def _label(self, kind: str, name: str, function: types.FunctionType) -> str:
        return f"{kind} {name}" if function is self._target else f"{kind} {name} of {function.__name__}"

    def _note_class(self, kind: type) -> None:
        """Add the attributes of a user class, the variables that its methods close over, and the state that the
        methods' code refers to.
        """
        for base in kind.__mro__:
            if id(base) in self._noted or not is_own(_file_of(base), self._packages):
                continue
            self._noted.add(id(base))
            attributes = ClassAttributes(base)
            self._snapshot.add(attributes)
            self._note_content(value for _, value in attributes.labelled())
            self._note_class(type(base))
            methods = (_function_of(value) for value in list(vars(base).values()))
            self._note_content(method for method in methods if method is not None)


def _function_of(value: Any) -> types.FunctionType | None:
    """Return the function of a method, static method, class method or property; None for any other value."""
    if is_a(value, (staticmethod, classmethod)):
        value = value.__func__
    elif is_a(value, property):
        value = value.fget
    return value if is_a(value, types.FunctionType) else None


def _file_of_module(module: types.ModuleType) -> str:
    """Return the file of a module. If a module without a file was created at run time, return a placeholder that
    ``is_own`` treats as user code. If a module without a file was imported (for example, a built-in module), return an
    empty string.
    """
    own = vars(module)
    return own.get("__file__") or ("" if own.get("__spec__") else "<made at run time>")


def names_in(code: types.CodeType) -> set[str]:
    """Return the names of globals and attributes in a code object, including nested functions and comprehensions."""
    inner = (names_in(constant) for constant in code.co_consts if isinstance(constant, types.CodeType))
    return set(code.co_names).union(*inner)


def _file_of(kind: type) -> str:
    module = sys.modules.get(kind.__module__)
    return getattr(module, "__file__", None) or ("" if module is None or kind.__module__ == "builtins" else "<stdin>")
