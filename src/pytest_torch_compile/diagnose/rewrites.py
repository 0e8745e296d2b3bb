"""One statement of a function written in another way, and the function run so for a while."""

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

# From a statement, the one that takes its place; None where this way does not fit. It may change what it gets.
Way = Callable[[ast.stmt, "ast.stmt | None"], "ast.stmt | None"]


@dataclass(frozen=True)
class Rewrite:
    """The statement at ``line`` of ``file``: ``way`` writes ``old`` as ``new``, which is empty where it is left out."""

    file: str
    line: int
    way: Way
    old: str
    new: str


def rewrites(place: Location, ways: Sequence[Way]) -> Iterator[Rewrite]:
    """Each way in which the statement at a place can be written; nothing where its source cannot be read."""
    for way in ways:
        tree = _tree(place.file)
        statement = _statement(tree, place.line) if tree else None
        if tree is None or statement is None:
            return
        old = ast.unparse(statement)
        changed = way(statement, _next(tree, statement))
        if changed is not None:
            kept = isinstance(changed, ast.If) and isinstance(changed.test, ast.Constant)
            yield Rewrite(place.file, place.line, way, old, "" if kept else ast.unparse(changed))


@contextmanager
def in_force(changes: Sequence[Rewrite]) -> Iterator[None]:
    """Every function with such a statement runs the rewritten code in the body.

    Raises:
        ValueError: the rewritten function is not like the one it stands for.
    """
    with ExitStack() as stack:
        for file in {change.file for change in changes}:
            tree = _rewritten(file, [change for change in changes if change.file == file])
            code = {_key(one): one for one in _codes(compile(tree, file, "exec"))}
            lines = [change.line for change in changes if change.file == file]
            for function in _functions(file, lines):
                if _key(function.__code__) in code:
                    stack.callback(setattr, function, "__code__", function.__code__)
                    function.__code__ = code[_key(function.__code__)]
                    if "torch" not in function.__globals__:
                        function.__globals__["torch"] = torch
                        stack.callback(function.__globals__.pop, "torch", None)
        yield


def _key(code: CodeType) -> tuple[str, int]:
    return code.co_name, code.co_firstlineno


def _functions(file: str, lines: Sequence[int]) -> list[FunctionType]:
    """The functions whose code has one of these lines, wherever they are kept."""
    of_file = [one for one in gc.get_objects() if type(one) is FunctionType and one.__code__.co_filename == file]
    return [one for one in of_file if {line for *_, line in one.__code__.co_lines()} & set(lines)]


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
    assert tree is not None  # a rewrite was made from it
    for change in changes:
        statement = _statement(tree, change.line)
        changed = statement and change.way(statement, _next(tree, statement))
        if statement is not None and changed is not None:
            block, position = _block(tree, statement)
            block[position] = ast.copy_location(changed, statement)
    return ast.fix_missing_locations(tree)


def _statement(tree: ast.Module, line: int) -> ast.stmt | None:
    """The innermost statement that covers a line."""
    inner = None
    for node in ast.walk(tree):  # from the outside to the inside
        if isinstance(node, ast.stmt) and node.lineno <= line <= (node.end_lineno or node.lineno):
            inner = node
    return inner


def _block(tree: ast.Module, statement: ast.stmt) -> tuple[list[ast.stmt], int]:
    """The list of statements that a statement stands in, and its position there."""
    for node in ast.walk(tree):
        for _, block in ast.iter_fields(node):
            if isinstance(block, list) and any(one is statement for one in block):
                return block, next(i for i, one in enumerate(block) if one is statement)
    raise LookupError("the statement is not in the tree")


def _next(tree: ast.Module, statement: ast.stmt) -> ast.stmt | None:
    block, position = _block(tree, statement)
    return block[position + 1] if position + 1 < len(block) else None


def left_out(statement: ast.stmt, following: ast.stmt | None) -> ast.stmt | None:
    """A call that changes no result, an assertion, or a branch of nothing else, left out."""
    if not _may_have_no_result(statement):
        return None
    # Kept where it never runs, so that the function still closes over the same variables.
    return ast.If(test=ast.Constant(False), body=[statement], orelse=[])


def _may_have_no_result(statement: ast.stmt) -> bool:
    if isinstance(statement, ast.If):
        return not statement.orelse and all(
            isinstance(one, ast.Raise) or _may_have_no_result(one) for one in statement.body
        )
    is_call = isinstance(statement, (ast.Expr, ast.Assign)) and isinstance(statement.value, ast.Call)
    return is_call or isinstance(statement, ast.Assert)


def with_where(statement: ast.stmt, following: ast.stmt | None) -> ast.stmt | None:
    """A branch that chooses between two values, as ``torch.where``."""
    return _chosen(statement, following, lambda test, a, b: _torch("where", test, a, b))


def with_cond(statement: ast.stmt, following: ast.stmt | None) -> ast.stmt | None:
    """A branch that chooses between two values, as ``torch.cond``."""
    nothing = ast.arguments(posonlyargs=[], args=[], kwonlyargs=[], kw_defaults=[], defaults=[])

    def cond(test: ast.expr, a: ast.expr, b: ast.expr) -> ast.expr:
        return _torch("cond", test, ast.Lambda(nothing, a), ast.Lambda(nothing, b), ast.Tuple([], ast.Load()))

    return _chosen(statement, following, cond)


def _chosen(
    statement: ast.stmt, following: ast.stmt | None, choose: Callable[[ast.expr, ast.expr, ast.expr], ast.expr]
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
        other = other or following
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
    """The one name or attribute that a statement assigns, and its value."""
    if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
        target = statement.targets[0]
        return (ast.unparse(target), statement.value) if isinstance(target, (ast.Name, ast.Attribute)) else (None, None)
    if isinstance(statement, ast.AugAssign) and isinstance(statement.target, (ast.Name, ast.Attribute)):
        name = ast.unparse(statement.target)
        return name, ast.BinOp(ast.parse(name, mode="eval").body, statement.op, statement.value)
    return None, None


def _as_tensor(test: ast.expr) -> ast.expr:
    """A condition that stays a tensor: what turns it into a Python value is taken away."""
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


def as_tensor(statement: ast.stmt, following: ast.stmt | None) -> ast.stmt | None:
    """``x.item()``, ``float(x)`` and ``int(x)`` written as the tensor that they read."""
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


def with_disabled(statement: ast.stmt, following: ast.stmt | None) -> ast.stmt | None:
    """The outermost call of a statement, kept out of the graph."""
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
