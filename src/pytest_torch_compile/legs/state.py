"""State that the legs share with the caller: variables of modules, classes and functions, and what they hold.

It cannot be copied for a leg, since the code names it. Its values are put in place while a leg runs instead: each leg
starts from the caller's, goes on from its own, and the caller's are put back after every call.
"""

from __future__ import annotations

import dis
import sys
import types
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.nn.parameter import is_lazy

from .._torch.machine_faults import machine_fault
from .._torch.user_lines import is_own
from .holders import ClassAttributes, Constant, Holder, Mutable, Variable, is_mutable, named_parts, with_parts
from .reach import EMPTY, cells, content, lives_in_torch, reached

_STORE_GLOBAL = dis.opmap["STORE_GLOBAL"]
_PLAIN_TENSORS = (torch.Tensor, torch.nn.Parameter)
_MODULE_TABLES = ("_parameters", "_buffers", "_modules", "_forward_pre_hooks", "_forward_hooks", "_backward_hooks")


@dataclass
class Values:
    """What one leg has in the shared state; empty before its first call, where it has the caller's."""

    held: dict[object, Any] = field(default_factory=dict)


class SharedState:
    """The shared state that a target's code names, as far as it is known, with the caller's values.

    ``functions`` are those the target holds that legs do not copy. More is found as eager runs: when a function begins,
    before it can change anything, what its code names is noted. What the import of a module changes, such as a registry
    that it fills, is no leg's own state: Python imports it once, so that it stays.
    """

    def __init__(self, target: Any, functions: Iterable[types.FunctionType] = ()) -> None:
        self._target = target
        held = list(reached([target]))
        homes = (type(value).__module__ for value in held if isinstance(value, torch.nn.Module))
        self._packages = frozenset(
            home.partition(".")[0] for home in (getattr(target, "__module__", None) or "", *homes)
        )
        self._holders: dict[object, Holder] = {}
        self._unreadable: dict[int, Any] = {}
        self._initial: dict[object, Any] = {}
        self._codes: dict[int, types.CodeType] = {}
        self._classes: set[type] = set()
        self._legs: list[Values] = []
        self._leg_runs = False
        self._before_import: dict[object, dict[object, Any]] = {}
        for function in functions:
            self._note_function(function)
        for kind in {type(value) for value in held}:
            self._note_class(kind)

    def code_runs(self, code: types.CodeType, namespace: dict[str, Any]) -> bool:
        """Note what code names before it runs; not while values are read or put, which may run code too."""
        if self._leg_runs:
            self._note_code(code, namespace)
        return self._leg_runs

    def import_begins(self) -> None:
        """Remember what there is before a module is imported."""
        self._before_import = {key: named_parts(holder) for key, holder in list(self._holders.items())}

    def import_ends(self) -> None:
        """What the import changed is the same for all legs from now on, and for the caller."""
        for key, before in self._before_import.items():
            holder, after = self._holders[key], named_parts(self._holders[key])
            names = [name for name in {**before, **after} if before.get(name, EMPTY) is not after.get(name, EMPTY)]
            if changed := {name: after.get(name, EMPTY) for name in names}:
                for held in (self._initial, *(values.held for values in self._legs)):
                    if key in held:
                        held[key] = with_parts(holder, held[key], changed)
        self._before_import = {}

    def _take(self) -> dict[object, Any]:
        # Reading may run code of the user's own, whose names would be added to the holders.
        return {key: holder.take() for key, holder in list(self._holders.items())}

    def _note_code(self, code: types.CodeType, namespace: dict[str, Any]) -> None:
        """Global variables that code of the user's own names, what they hold, and functions that it calls."""
        if id(code) in self._codes or not is_own(code.co_filename, self._packages):
            return
        self._codes[id(code)] = code
        names = names_in(code)
        for name in sorted(names & namespace.keys()):
            self._note_named(name, namespace, names)
        if _STORE_GLOBAL in code.co_code[::2]:
            for name in names - namespace.keys():
                self._note_variable(f"global {name}", namespace, name)

    def _note_named(self, name: str, namespace: dict[str, Any], names: set[str]) -> None:
        value = namespace[name]
        if isinstance(value, types.FunctionType):
            self._note_function(value)
        elif isinstance(value, type):
            self._note_class(value)
        elif isinstance(value, types.ModuleType):
            if is_own(getattr(value, "__file__", None) or "", self._packages):
                inner = vars(value)
                for attribute in sorted(names & inner.keys()):
                    if not isinstance(inner[attribute], (types.FunctionType, type, types.ModuleType)):
                        self._note_variable(f"global {name}.{attribute}", inner, attribute)
        else:
            self._note_variable(f"global {name}", namespace, name)

    def _note_function(self, function: types.FunctionType) -> None:
        """What a function closes over and has as defaults, and what its code names."""
        self._note_content(function)
        self._note_code(function.__code__, function.__globals__)

    def _note_class(self, kind: type) -> None:
        """Attributes of a class of the user's own, and what its methods close over."""
        for base in kind.__mro__:
            if base in self._classes or not is_own(_file_of(base), self._packages):
                continue
            self._classes.add(base)
            for value in list(vars(base).values()):
                function = getattr(value, "__func__", None) or getattr(value, "fget", None) or value
                if isinstance(function, types.FunctionType):
                    self._note_content(function)
            attributes = ClassAttributes(base)
            self._add(id(base), attributes)
            self._note_content(attributes.take())

    def _note_variable(self, label: str, namespace: dict[str, Any], name: str) -> None:
        def assign(value: Any) -> None:
            if value is EMPTY:
                namespace.pop(name, None)
            else:
                namespace[name] = value

        self._add((id(namespace), name), Variable(label, lambda: namespace.get(name, EMPTY), assign))
        self._note_content(namespace.get(name))

    def _note_cell(self, name: str, cell: types.CellType, function: types.FunctionType) -> None:
        def assign(value: Any) -> None:
            if value is EMPTY:
                del cell.cell_contents
            else:
                cell.cell_contents = value

        self._add(id(cell), Variable(self._label("variable", name, function), lambda: content(cell), assign))

    def _note_defaults(self, function: types.FunctionType) -> None:
        """Defaults that can be changed in place; the function itself cannot assign them."""
        parameters = function.__code__.co_varnames[: function.__code__.co_argcount]
        named = zip(reversed(parameters), reversed(function.__defaults__ or ()), strict=False)
        for name, default in (*named, *(function.__kwdefaults__ or {}).items()):
            if is_mutable(default):
                label = self._label("default", name, function)
                self._add((id(function), name), Constant(label, default))

    def _label(self, kind: str, name: str, function: types.FunctionType) -> str:
        return f"{kind} {name}" if function is self._target else f"{kind} {name} of {function.__name__}"

    def _note_content(self, value: Any) -> None:
        """Everything that can be changed in place in what a variable holds, gradients and closed-over variables too."""
        for held in reached([value], closed=self._holders):
            if isinstance(held, types.FunctionType) and not lives_in_torch(held):
                for name, cell in cells(held):
                    if name != "__class__":
                        self._note_cell(name, cell, held)
                self._note_defaults(held)
            if is_mutable(held) and not (isinstance(held, torch.Tensor) and held.is_meta):
                self._add(id(held), Mutable(held))
            if isinstance(held, torch.Tensor) and held.is_leaf and held.grad is not None:
                self._add(id(held.grad), Mutable(held.grad))
            if isinstance(held, torch.nn.Module):
                for table in _MODULE_TABLES:
                    self._add(id(vars(held)[table]), Mutable(vars(held)[table]))

    def _add(self, key: object, holder: Holder) -> None:
        if key in self._holders or key in self._unreadable:
            return
        try:
            self._initial[key] = holder.take()
        except Exception as error:  # a tensor subclass may raise anything, lazy tensors have no numbers yet
            if not isinstance(holder, Mutable) or machine_fault(error, compiling=False):
                raise
            self._unreadable[id(holder.value)] = holder.value
        else:
            self._holders[key] = holder

    def is_readable(self, tensor: torch.Tensor) -> bool:
        """Whether a tensor's numbers can be copied, so that legs can be compared by it."""
        if id(tensor) not in self._unreadable and not self.is_shared(tensor) and type(tensor) not in _PLAIN_TENSORS:
            try:
                tensor.detach().clone()
            except Exception as error:
                if machine_fault(error, compiling=False):
                    raise
                self._unreadable[id(tensor)] = tensor
        return id(tensor) not in self._unreadable

    def not_observable(self) -> list[str]:
        """What of the state cannot be copied, and so is neither compared nor put back: a line, or none."""
        kinds = sorted({type(value).__name__ for value in self._unreadable.values() if not is_lazy(value)})
        if not kinds:
            return []
        return [f"state of type {', '.join(kinds)}: it cannot be copied, so it was neither compared nor put back"]

    @contextmanager
    def in_force(self, values: Values) -> Iterator[None]:
        """Put one leg's values in place in the body, and the caller's after it; ``values`` keeps the leg's."""
        if not any(values is known for known in self._legs):
            self._legs.append(values)
        self._put(values.held)
        self._leg_runs = True
        try:
            yield
        finally:
            self._leg_runs = False
            values.held = self._take()
            self._put({})

    def _put(self, held: dict[object, Any]) -> None:
        """Put a leg's values in place; the caller's where it has none of its own."""
        for key, holder in list(self._holders.items()):
            holder.put(held.get(key, self._initial[key]))

    def variables(self) -> Iterator[tuple[str, Any]]:
        """The shared variables and their values now, each with a label such as ``global COUNTER``."""
        for holder in self._holders.values():
            if isinstance(holder, ClassAttributes):
                yield from holder.labelled()
            elif isinstance(holder, (Variable, Constant)) and (value := holder.take()) is not EMPTY:
                yield holder.label, value

    def is_shared(self, value: Any) -> bool:
        """Whether the content of an object will be the caller's again when the leg has run."""
        return id(value) in self._holders


def names_in(code: types.CodeType) -> set[str]:
    """The global names and attributes that code mentions, functions and comprehensions inside it included."""
    inner = (names_in(constant) for constant in code.co_consts if isinstance(constant, types.CodeType))
    return set(code.co_names).union(*inner)


def _file_of(kind: type) -> str:
    module = sys.modules.get(kind.__module__)
    return getattr(module, "__file__", None) or ("" if module is None or kind.__module__ == "builtins" else "<stdin>")
