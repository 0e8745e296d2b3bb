"""Rewrite one statement of a function, and temporarily run the rewritten function."""

from __future__ import annotations

import ast
import gc
import linecache
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from types import CodeType, FunctionType

import torch

from ..observation import Location


@dataclass(frozen=True)
class Around:
    """The context of a statement: the next statement, and the variables of the enclosing functions."""

    following: ast.stmt | None
    variables: frozenset[str]


# A function that returns the replacement of a statement, or None if the rewrite does not apply. The function may modify
# the statement.
Way = Callable[[ast.stmt, Around], "ast.stmt | None"]


@dataclass(frozen=True)
class Rewrite:
    """A rewrite of the statement at ``line`` in ``file``: ``new`` replaces ``old``, or is empty if the statement is
    removed. ``way`` is the function that creates the rewrite.

    ``moved`` is code that runs outside the function instead of inside it.
    """

    file: str
    line: int
    way: Way
    old: str
    new: str
    moved: str = ""


def rewrites(place: Location, ways: Sequence[Way]) -> Iterator[Rewrite]:
    """Yield all rewrites that apply to the statement at a location, or nothing if the source cannot be read."""
    for way in ways:
        tree = _tree(place.file)
        statement = _statement(tree, place.line) if tree else None
        if tree is None or statement is None:
            return
        old, around = ast.unparse(statement), _around(tree, statement)
        parts = statement.items if isinstance(statement, ast.With) else _independent_calls(statement, around)
        moved = [ast.unparse(part) for part in parts]
        changed = way(statement, around)
        if changed is not None:
            kept = isinstance(changed, ast.If) and isinstance(changed.test, ast.Constant)
            yield Rewrite(place.file, place.line, way, old, "" if kept else ast.unparse(changed), ", ".join(moved))


@contextmanager
def in_force(changes: Sequence[Rewrite]) -> Iterator[None]:
    """Inside the ``with`` block, replace the code of every function that contains a rewritten statement.

    Raises:
        ValueError: If the rewritten function is not compatible with the original.
    """
    with ExitStack() as stack:
        for file in {change.file for change in changes}:
            of_file = [change for change in changes if change.file == file]
            code = {_key(one): one for one in _codes(compile(_rewritten(file, of_file), file, "exec"))}
            lines = {change.line for change in of_file}
            # A function may be in a class, a closure or a registry, so all function objects of the process are tried.
            # The block must not keep these objects alive, so they are in no variable.
            for function in [
                one for one in gc.get_objects() if type(one) is FunctionType and one.__code__.co_filename == file
            ]:
                if _key(function.__code__) in code and lines & {line for *_, line in function.__code__.co_lines()}:
                    stack.callback(setattr, function, "__code__", function.__code__)
                    function.__code__ = code[_key(function.__code__)]
                    for name, value in {"torch": torch, **_values(of_file, function)}.items():
                        if name not in function.__globals__:
                            function.__globals__[name] = value
                            stack.callback(function.__globals__.pop, name, None)
        yield


def _key(code: CodeType) -> tuple[str, int]:
    return code.co_name, code.co_firstlineno


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)


def _tree(file: str) -> ast.Module | None:
    try:
        return ast.parse("".join(linecache.getlines(file))) if linecache.getlines(file) else None
    except SyntaxError:
        return None


def _rewritten(file: str, changes: Sequence[Rewrite]) -> ast.Module:
    tree = _tree(file)
    assert tree is not None  # the rewrites were created from this file
    for change in changes:
        statement = _statement(tree, change.line)
        changed = statement and change.way(statement, _around(tree, statement))
        if statement is not None and changed is not None:
            block, position = _block(tree, statement)
            block[position] = ast.copy_location(changed, statement)
    return ast.fix_missing_locations(tree)


def _statement(tree: ast.Module, line: int) -> ast.stmt | None:
    """Return the innermost statement that covers a line."""
    inner = None
    for node in ast.walk(tree):  # from the outermost to the innermost
        if isinstance(node, ast.stmt) and node.lineno <= line <= (node.end_lineno or node.lineno):
            inner = node
    return inner


def _block(tree: ast.Module, statement: ast.stmt) -> tuple[list[ast.stmt], int]:
    """Return the list that contains a statement, and its index."""
    for node in ast.walk(tree):
        for _, block in ast.iter_fields(node):
            if isinstance(block, list) and any(one is statement for one in block):
                return block, next(i for i, one in enumerate(block) if one is statement)
    raise LookupError("the statement is not in the tree")


def _around(tree: ast.Module, statement: ast.stmt) -> Around:
    block, position = _block(tree, statement)
    functions = [
        node
        for node in ast.walk(tree)
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda))
        and node.lineno <= statement.lineno <= (node.end_lineno or node.lineno)
    ]
    parts = [part for function in functions for part in ast.walk(function)]
    variables = {part.arg for part in parts if isinstance(part, ast.arg)}
    variables |= {part.id for part in parts if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store)}
    return Around(block[position + 1] if position + 1 < len(block) else None, frozenset(variables))


def _independent_calls(statement: ast.stmt, around: Around) -> list[ast.Call]:
    """Return a statement's calls that do not read any variable of the function. Calls nested inside these calls are
    omitted.
    """
    expression = statement.test if isinstance(statement, ast.If) else getattr(statement, "value", None)
    calls, nodes = [], [] if isinstance(statement, ast.Expr) or expression is None else [expression]
    while nodes:
        node = nodes.pop(0)
        names = {one.id for one in ast.walk(node) if isinstance(one, ast.Name)}
        if isinstance(node, ast.Call) and not names & around.variables:
            calls.append(node)
        else:
            nodes += ast.iter_child_nodes(node)
    return calls


def computed_outside(statement: ast.stmt, around: Around) -> ast.stmt | None:
    """Find the calls that do not depend on the function's local variables. Compute the results of these calls before
    the function runs, and make the function read each result from a global variable.
    """
    calls = _independent_calls(statement, around)

    class Outside(ast.NodeTransformer):
        def visit_Call(self, node: ast.Call) -> ast.expr:
            if node in calls:
                return ast.copy_location(ast.Name(_outside(node), ast.Load()), node)
            self.generic_visit(node)
            return node

    new: ast.stmt = Outside().visit(statement)
    return new if calls else None


def _outside(call: ast.Call) -> str:
    return f"_outside_{call.lineno}_{call.col_offset}"


def _values(changes: Sequence[Rewrite], function: FunctionType) -> dict[str, object]:
    """Return the values of expressions moved out of the function, keyed by the names that the rewritten code uses."""
    values: dict[str, object] = {}
    for change in changes:
        tree = _tree(change.file)
        statement = _statement(tree, change.line) if tree and change.way is computed_outside else None
        if tree is not None and statement is not None:
            for call in _independent_calls(statement, _around(tree, statement)):
                code = compile(ast.Expression(call), change.file, "eval")
                values[_outside(call)] = eval(code, function.__globals__)
    return values


def without_context(statement: ast.stmt, around: Around) -> ast.stmt | None:
    """Replace a ``with`` statement with its body."""
    if not isinstance(statement, ast.With):
        return None
    # Keep the statement as dead code, so that the function still closes over the same variables.
    managers: list[ast.stmt] = [ast.Expr(item.context_expr) for item in statement.items]
    never = ast.If(test=ast.Constant(False), body=managers, orelse=[])
    return ast.If(test=ast.Constant(True), body=[never, *statement.body], orelse=[])


def left_out(statement: ast.stmt, around: Around) -> ast.stmt | None:
    """Remove a statement that might not affect the result: a call, the assignment of a call's result, an assertion, or
    an ``if`` without ``else`` that contains only ``raise`` statements and statements of these kinds.
    """
    if not _may_have_no_result(statement):
        return None
    # Keep the statement as dead code, so that the function still closes over the same variables.
    return ast.If(test=ast.Constant(False), body=[statement], orelse=[])


def _may_have_no_result(statement: ast.stmt) -> bool:
    if isinstance(statement, ast.If):
        return not statement.orelse and all(
            isinstance(one, ast.Raise) or _may_have_no_result(one) for one in statement.body
        )
    is_call = isinstance(statement, (ast.Expr, ast.Assign)) and isinstance(statement.value, ast.Call)
    return is_call or isinstance(statement, ast.Assert)


def with_where(statement: ast.stmt, around: Around) -> ast.stmt | None:
    """Use ``torch.where`` instead of an ``if`` that selects one of two values."""
    return _chosen(statement, around, lambda test, a, b: _torch("where", test, a, b))


def with_cond(statement: ast.stmt, around: Around) -> ast.stmt | None:
    """Use ``torch.cond`` instead of an ``if`` that selects one of two values."""
    nothing = ast.arguments(posonlyargs=[], args=[], kwonlyargs=[], kw_defaults=[], defaults=[])

    def cond(test: ast.expr, a: ast.expr, b: ast.expr) -> ast.expr:
        return _torch("cond", test, ast.Lambda(nothing, a), ast.Lambda(nothing, b), ast.Tuple([], ast.Load()))

    return _chosen(statement, around, cond)


def _chosen(
    statement: ast.stmt, around: Around, choose: Callable[[ast.expr, ast.expr, ast.expr], ast.expr]
) -> ast.stmt | None:
    class InExpressions(ast.NodeTransformer):
        changed = False

        def visit_IfExp(self, node: ast.IfExp) -> ast.expr:
            self.changed = True
            return choose(_as_tensor(node.test), node.body, node.orelse)

    if not isinstance(statement, ast.If):
        chooser = InExpressions()
        new: ast.stmt = chooser.visit(statement)
        return new if chooser.changed else None
    if len(statement.body) != 1 or len(statement.orelse) > 1:
        return None
    then: ast.stmt = statement.body[0]
    other = statement.orelse[0] if statement.orelse else None
    test = _as_tensor(statement.test)
    if isinstance(then, ast.Return) and then.value is not None:
        other = other or around.following
        if isinstance(other, ast.Return) and other.value is not None:
            return ast.Return(choose(test, then.value, other.value))
        return None
    name, value = _assigned(then)
    if name is None or value is None:
        return None
    other_name, other_value = _assigned(other) if other else (name, ast.parse(name, mode="eval").body)
    if other_name != name or other_value is None:
        return None
    target = ast.parse(f"{name} = 0").body[0]
    assert isinstance(target, ast.Assign)
    target.value = choose(test, value, other_value)
    return target


def _assigned(statement: ast.stmt | None) -> tuple[str | None, ast.expr | None]:
    """Return the single name or attribute that a statement assigns, and the assigned value."""
    if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
        target = statement.targets[0]
        return (ast.unparse(target), statement.value) if isinstance(target, (ast.Name, ast.Attribute)) else (None, None)
    if isinstance(statement, ast.AugAssign) and isinstance(statement.target, (ast.Name, ast.Attribute)):
        name = ast.unparse(statement.target)
        return name, ast.BinOp(ast.parse(name, mode="eval").body, statement.op, statement.value)
    return None, None


def _as_tensor(test: ast.expr) -> ast.expr:
    """Rewrite a condition as a tensor expression, without conversions to Python values."""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        return _torch("logical_not", _as_tensor(test.operand))
    if isinstance(test, ast.BoolOp):
        name = "logical_and" if isinstance(test.op, ast.And) else "logical_or"
        first, *rest = map(_as_tensor, test.values)
        for value in rest:
            first = _torch(name, first, value)
        return first
    new: ast.expr = _ToTensor().visit(test)
    return new


def as_tensor(statement: ast.stmt, around: Around) -> ast.stmt | None:
    """Replace ``x.item()``, ``float(x)``, ``int(x)`` and ``bool(x)`` with ``x``."""
    reader = _ToTensor()
    new: ast.stmt = reader.visit(statement)
    return new if reader.changed else None


class _ToTensor(ast.NodeTransformer):
    changed = False

    def visit_Call(self, node: ast.Call) -> ast.expr:
        self.generic_visit(node)
        if isinstance(node.func, ast.Attribute) and node.func.attr == "item" and not node.args:
            self.changed = True
            return node.func.value
        if isinstance(node.func, ast.Name) and node.func.id in ("float", "int", "bool") and len(node.args) == 1:
            self.changed = True
            return node.args[0]
        return node


def with_disabled(statement: ast.stmt, around: Around) -> ast.stmt | None:
    """Apply ``torch.compiler.disable`` to the function in a statement's outermost call."""
    for node in ast.walk(statement):
        if isinstance(node, ast.Call) and isinstance(node.func, (ast.Name, ast.Attribute)):
            node.func = ast.Call(_attribute("compiler", "disable"), [node.func], [])
            return statement
    return None


def _torch(function: str, *args: ast.expr) -> ast.Call:
    return ast.Call(_attribute(function), list(args), [])


def _attribute(*names: str) -> ast.expr:
    value: ast.expr = ast.Name("torch", ast.Load())
    for name in names:
        value = ast.Attribute(value, name, ast.Load())
    return value
