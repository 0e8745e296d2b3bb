"""Copy the source of functions and classes, with all user definitions that they reference."""

from __future__ import annotations
import __future__

import ast
import functools
import importlib
import inspect
import re
import symtable
import sys
import textwrap
import types
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch

from .._torch.custom_ops import is_opaque
from .._torch.user_lines import is_own
from ..legs.reach import EMPTY, cells, content

_SHORT = (torch, torch.nn, torch.nn.functional, torch.linalg, torch.fft, torch.special, torch.Tensor)
_OP = re.compile(r"\btorch\.ops\.(\w+)\.(\w+)")


class Unwritable(Exception):
    """Raised for an object that cannot be written as source; the message is the reason."""


def is_users(value: Any) -> bool:
    """Return whether a function or class is defined in one of the user's files."""
    try:
        return is_own(inspect.getsourcefile(inspect.unwrap(value)) or "")
    except (TypeError, OSError):
        return False


class Definitions:
    """The first part of a script: imports, constants, functions and classes, each after the definitions that it depends
    on.

    ``value`` is called to write a variable whose value is not a module, function or class. ``needs`` lists the required
    packages other than torch.
    """

    def __init__(self, value: Callable[[str, Any, bool], None]) -> None:
        self.imports: dict[str, None] = {}
        self.lines: list[str] = []
        self.needs: set[str] = set()
        self._value = value
        self._meanings: dict[str, Any] = {}
        self._statements: set[tuple[str, int]] = set()

    @property
    def taken(self) -> set[str]:
        """The names that are bound in the script."""
        return set(self._meanings)

    @property
    def text(self) -> str:
        """The source: imports, followed by definitions."""
        # Python accepts an import from __future__ only at the start of a file.
        first = sorted(self.imports, key=lambda line: ("__future__" not in line, line))
        return "\n".join([*first, "", "", "\n\n".join(self.lines)]).strip()

    def name_of(self, value: Any, wanted: str = "") -> str:
        """Return the expression for a function, class or module, and add its definition or import to the script."""
        if isinstance(value, types.ModuleType):
            return self._import(value.__name__)
        if is_users(value):
            return self._define(value, wanted)
        if is_opaque(value):
            return self._made_by_statement(value)
        for place in _SHORT:
            name = getattr(value, "__name__", "")
            if name and getattr(place, name, None) is value:
                return f"{place.__module__ + '.Tensor' if place is torch.Tensor else place.__name__}.{name}"
        module, path = getattr(value, "__module__", None), getattr(value, "__qualname__", "")
        try:
            held: Any = functools.reduce(getattr, path.split("."), importlib.import_module(str(module)))
        except (ImportError, AttributeError, ValueError):
            held = EMPTY
        if held is not value:
            raise Unwritable(f"{path or value!r} has no source code and cannot be imported by name")
        return path if module == "builtins" else f"{self._import(str(module))}.{path}"

    def _made_by_statement(self, value: Any) -> str:
        """Return the name of the user's variable that refers to a custom op, and copy the statement that creates the
        op.
        """
        for module in [one for one in sys.modules.values() if is_own(getattr(one, "__file__", None) or "")]:
            for name, held in list(vars(module).items()):
                if held is value:
                    self.bind(name, value, module)
                    return name
        raise Unwritable(f"no module-level variable refers to the {type(value).__name__}")

    def _import(self, module: str) -> str:
        top = module.split(".")[0]
        if top not in sys.stdlib_module_names | {"torch"}:
            self.needs.add(top)
        self.imports[f"import {module}"] = None
        return module

    def _define(self, value: Any, wanted: str) -> str:
        origin = inspect.unwrap(value)
        if isinstance(origin, types.FunctionType) and origin.__name__ == "<lambda>":
            name, source = wanted or "function", _lambda_source(origin)
            source = f"{name} = {source}"
        else:
            name, source = origin.__name__, textwrap.dedent(_source(origin))
        source = source.replace("nonlocal ", "global ")  # closed-over variables become globals of the script
        if self._reserve(name, origin):
            self._need(source, _namespace(origin), origin)
            self.lines.append(source.rstrip())
            code = getattr(origin, "__code__", None)
            if code is not None and code.co_flags & __future__.annotations.compiler_flag:
                self.imports["from __future__ import annotations"] = None
        if wanted and wanted != name and self._reserve(wanted, origin):
            self.lines.append(f"{wanted} = {name}")
        return name

    def _reserve(self, name: str, value: Any) -> bool:
        """Reserve ``name`` for ``value``, and return whether the definition of ``value`` must still be written."""
        if name not in self._meanings:
            self._meanings[name] = value
            return True
        if self._meanings[name] is not value:
            raise Unwritable(f"the name {name} refers to two different objects in the target's source files")
        return False

    def _need(self, source: str, names: Mapping[str, Any], owner: Any) -> None:
        """Write the definitions of the names that ``source`` references, and of the torch.library ops that it calls."""
        stored = _stored(source)
        for name in _names(source):
            if name in names:
                self.bind(name, names[name], owner, stored=name in stored)
        for space, op in _OP.findall(source):
            if space not in ("aten", "prims", "prim", "higher_order", "c10d", "inductor") and not self._statements_of(
                owner, f"{space}::{op}"
            ):
                raise Unwritable(f"the op {space}::{op} is not defined in the file of the code that calls it")

    def bind(self, name: str, value: Any, owner: Any = None, *, stored: bool = False) -> None:
        """Write code that binds ``name`` to ``value``, unless the script already contains this code."""
        if isinstance(value, types.ModuleType):
            if self._reserve(name, value):
                self._import(value.__name__)
                if name != value.__name__.split(".")[0]:
                    self.lines.append(f"{name} = {value.__name__}")
        elif isinstance(value, (type, types.FunctionType, types.BuiltinFunctionType)):
            written = self.name_of(value, name if getattr(value, "__name__", name) != name else "")
            if written != name and self._reserve(name, inspect.unwrap(value)):
                self.lines.append(f"{name} = {written}")
        elif is_opaque(value) and owner is not None:
            if self._reserve(name, value) and not self._statements_of(owner, name):
                raise Unwritable(f"{name}, a {type(value).__name__}, is created in code that cannot be copied")
        elif self._reserve(name, value):
            self._value(name, value, stored)

    def _statements_of(self, owner: Any, name: str) -> bool:
        """Copy the statements of the owner's module that bind ``name``, or use it in a decorator, an assignment or a
        call. Return whether the module contains any such statement.
        """
        module = owner if isinstance(owner, types.ModuleType) else sys.modules.get(owner.__module__)
        if module is None:
            return False
        source = inspect.getsource(module)
        chosen = [one for one in ast.parse(source).body if _is_about(one, name)]
        for one in chosen:
            start = min([one.lineno, *(d.lineno for d in getattr(one, "decorator_list", []))])
            if (module.__name__, start) in self._statements:
                continue
            self._statements.add((module.__name__, start))
            text = "\n".join(source.splitlines()[start - 1 : one.end_lineno])
            self._need(text, {k: v for k, v in vars(module).items() if k not in _bound(one)}, owner)
            self.lines.append(text)
        return bool(chosen)


def _source(value: Any) -> str:
    try:
        return inspect.getsource(value)
    except (OSError, TypeError) as error:
        raise Unwritable(f"the source of {getattr(value, '__name__', value)!r} cannot be read: {error}") from None


def _lambda_source(function: types.FunctionType) -> str:
    """Return the source of a lambda.

    Raises:
        Unwritable: If the source lines contain several lambdas, and the bytecode does not identify the right lambda.
    """
    lines = _source(function)
    text, code = textwrap.dedent(lines).strip(), function.__code__.co_code
    # ``inspect`` returns whole lines, which may contain only a part of a statement, so several parts are tried.
    for attempt in (text, f"({text})", text.rstrip(":, "), text[text.find("lambda") :].rstrip("),: \n")):
        try:
            tree = ast.parse(attempt)
        except SyntaxError:
            continue
        found = [ast.get_source_segment(attempt, node) for node in ast.walk(tree) if isinstance(node, ast.Lambda)]
        alike = [one for one in found if one and eval(compile(one, "", "eval"), {}).__code__.co_code == code]
        if len(found) == 1 or len(set(alike)) == 1:
            return str((alike or found)[0])
    raise Unwritable("the source line of a lambda contains another lambda")


def _namespace(value: Any) -> dict[str, Any]:
    """Return the values of the names that a function or class uses, looked up first in its closure and then in its
    globals.
    """
    members = [value]
    if not isinstance(value, types.FunctionType):
        members = [getattr(one, "__func__", getattr(one, "fget", one)) for one in vars(value).values()]
    functions = [one for one in members if isinstance(one, types.FunctionType)]
    names = dict(vars(sys.modules[value.__module__])) if value.__module__ in sys.modules else {}
    for function in functions:
        names = {**names, **function.__globals__} if function.__module__ == value.__module__ else names
    # Closures come last, because a name in a closure hides the global of the same name.
    for function in functions:
        names |= {name: content(cell) for name, cell in cells(function) if content(cell) is not EMPTY}
    names.pop("__class__", None)  # a variable that Python adds to methods that call ``super()``
    return names


def _tables(table: symtable.SymbolTable) -> Iterator[symtable.SymbolTable]:
    yield table
    for child in table.get_children():
        yield from _tables(child)


def _names(source: str) -> list[str]:
    """Return the free names in ``source``, in the order in which they appear."""
    top = symtable.symtable(source, "source", "exec")
    wanted = {s.get_name() for t in _tables(top) for s in t.get_symbols() if s.is_global() and s.is_referenced()}
    wanted |= {s.get_name() for s in top.get_symbols() if s.is_referenced()}
    wanted |= _stored(source)
    return list(dict.fromkeys(name for name in re.findall(r"\w+", source) if name in wanted))


def _stored(source: str) -> set[str]:
    """Return the names that ``source`` declares as global or nonlocal."""
    nodes = [node for node in ast.walk(ast.parse(source)) if isinstance(node, (ast.Global, ast.Nonlocal))]
    return {name for node in nodes for name in node.names}


def _bound(statement: ast.stmt) -> set[str]:
    if isinstance(statement, (ast.FunctionDef, ast.ClassDef)):
        return {statement.name}
    targets = statement.targets if isinstance(statement, ast.Assign) else []
    return {target.id for target in targets if isinstance(target, ast.Name)}


def _is_about(statement: ast.stmt, name: str) -> bool:
    """Return whether a statement binds ``name``, or uses it in a decorator, an assignment or a call, for example
    ``name.register_fake(f)``. ``name`` is a variable or an op (``space::op``).
    """
    if name in _bound(statement):
        return True
    heads: list[ast.AST] = list(getattr(statement, "decorator_list", []))
    heads += [statement.value] if isinstance(statement, (ast.Expr, ast.Assign)) else []
    if isinstance(statement, ast.Expr) and not isinstance(statement.value, ast.Call):
        return False
    nodes = [node for head in heads for node in ast.walk(head)]
    if any(isinstance(node, ast.Name) and node.id == name for node in nodes):
        return True
    space, _, op = name.partition("::")
    texts = [node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str) and op]
    is_library = isinstance(statement, ast.Assign) and space in texts
    return is_library or any(text.startswith((name, f"{op}(")) for text in texts)
