"""Run the source of a generated kernel on the CPU, with ``language`` in place of Triton.

Inductor's ``triton_helpers`` are run on the CPU as well, so that reductions treat NaN and ties as they do on a GPU.

This module uses these private torch names, checked with torch 2.11, 2.13 and 2.15: ``PyCodeCache.load``; ``configs``,
``inductor_meta`` and ``triton_meta`` of ``CachingAutotuner``; ``GridExpr.from_meta`` and ``triton_helpers`` of
``torch._inductor.runtime``.
"""

from __future__ import annotations
import __future__

import ast
import builtins
import inspect
import math
import re
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import CodeType, SimpleNamespace
from typing import Any

import torch

from .block import INT1, OF_TORCH, Block, NotInterpreted
from .language import language
from .mathematics import MATHEMATICS
from .pointer import Accesses, Launch, Pointer

# The maximum total number of block elements in all programs that run together, which limits the memory of a launch.
ELEMENTS = 2**22
_ACCESS = re.compile(r"\btl\.(load|store|atomic_add)\((\w+)")


class _Names(SimpleNamespace):
    """A replacement for a Triton module. Looking up an undefined name returns a ``_Missing``."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _Missing(name)


class _Missing:
    """A stand-in for a Triton name that has no replacement. The stand-in can be imported; it raises ``NotInterpreted``
    only when it is called.
    """

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _Missing(f"{self._name}.{name}")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if len(args) == 1 and not kwargs and callable(args[0]):  # a decorator
            return args[0]
        raise NotInterpreted(self._name)

    def __or__(self, other: Any) -> Any:  # used in type annotations
        return self

    __ror__ = __or__


@dataclass
class Interpreted:
    """A kernel that can be launched on CPU tensors."""

    name: str
    source: str

    def __post_init__(self) -> None:
        from torch._inductor.codecache import PyCodeCache

        self.launch = Launch()
        self._function: Callable[..., Any] | None = None
        self.tuner: Any = None
        self.why_not = ""
        try:
            self.tuner = getattr(PyCodeCache.load(self.source), self.name)
        except Exception as error:
            self.why_not = f"{type(error).__name__}: {error}"

    def run(self, arguments: Sequence[Any]) -> list[str]:
        """Launch the kernel, and return its faults, such as an access outside a tensor.

        Raises:
            NotInterpreted: If the kernel cannot run on the CPU.
        """
        if self.why_not:
            raise NotInterpreted(self.why_not)
        config = max(
            self.tuner.configs, key=lambda one: math.prod(v for v in one.kwargs.values() if isinstance(v, int))
        )
        function = self._function = self._function or self._loaded()
        names = [name for name in inspect.signature(function).parameters if name not in config.kwargs]
        constants = self.tuner.triton_meta.get("constants", {})
        names = [
            name for name in names if name not in ("num_warps", "num_stages") and constants.get(name, 0) is not None
        ]
        given = dict(zip(names, arguments, strict=False))
        given |= {name: value for name, value in constants.items() if name not in given and name not in config.kwargs}
        grid = self._grid(config, given, arguments[len(names) :])
        signature = self.tuner.triton_meta["signature"]
        values = {name: _argument(name, value, str(signature.get(name))) for name, value in given.items()}
        block = math.prod(value for value in config.kwargs.values() if isinstance(value, int)) or 1
        self.launch.accesses = self._accesses(values)
        self._programs(function, {**values, **config.kwargs}, grid, max(1, ELEMENTS // block))
        faults, self.launch.faults = self.launch.faults, []
        return faults + [fault for one in self.launch.accesses.values() if (fault := one.fault())]

    def _accesses(self, values: Mapping[str, Any]) -> dict[tuple[int, torch.dtype], Accesses]:
        """Return the records for memory that the kernel both reads and writes."""
        if "grid_barrier" in self.source:  # the programs wait for each other
            return {}
        pointers = {name: one for name, one in values.items() if isinstance(one, Pointer)}
        used = [(call[1], pointers[call[2]]) for call in _ACCESS.finditer(self.source) if call[2] in pointers]
        read = {pointer.memory for function, pointer in used if function == "load"}
        written = {pointer.memory: pointer for function, pointer in used if function != "load"}
        return {memory: Accesses(one.name, one.tensor) for memory, one in written.items() if memory in read}

    def _grid(self, config: Any, given: Mapping[str, Any], extra: Sequence[Any]) -> list[int]:
        from torch._inductor.runtime.triton_heuristics import GridExpr

        expression = GridExpr.from_meta(self.tuner.inductor_meta, config)
        scope = {**given, **config.kwargs}
        scope |= dict(zip(self.tuner.inductor_meta.get("extra_launcher_args", ()), extra, strict=False))
        for line in expression.prefix:
            exec(line, scope)
        sizes = (expression.x_grid, expression.y_grid, expression.z_grid)
        return [int(eval(str(size), scope)) for size in sizes]

    def _programs(self, function: Callable[..., Any], values: Mapping[str, Any], grid: list[int], most: int) -> None:
        """Run a grid's programs, at most ``most`` of them at a time."""
        self.launch.grid = grid
        for start in range(0, math.prod(grid), most):
            number = torch.arange(start, min(start + most, math.prod(grid)), dtype=torch.int32, device="cpu")
            self.launch.number = number
            self.launch.ids = (number % grid[0], number // grid[0] % grid[1], number // (grid[0] * grid[1]))
            function(**values)

    def _loaded(self) -> Callable[..., Any]:
        from torch._inductor.runtime import triton_helpers

        names = _Names(**language(self.launch))
        names.math = names.libdevice = mathematics = _Names(**MATHEMATICS)
        names.extra = _Names(libdevice=mathematics)
        same: Callable[..., Any] = _decorator
        triton = _Names(jit=same, language=names, cdiv=lambda one, other: -(-one // other), heuristics=same)
        heuristics = _Names(**dict.fromkeys(_HEURISTICS, lambda *_, **__: same))
        modules = _Names(
            tl=names, triton=triton, libdevice=mathematics, tl_math=mathematics, math=mathematics, AttrsDescriptor=None
        )
        modules.triton_heuristics, modules.builtins = heuristics, builtins
        modules.triton_helpers = _helpers(vars(triton_helpers), modules)
        loaded: Callable[..., Any] = _executed(self.source, self.name, triton, modules)[self.name]
        return loaded


def _helpers(names: Mapping[str, Any], modules: Any) -> Any:
    """Return Inductor's helper functions, compiled again from their source with replacements for Triton's modules."""
    scope: dict[str, Any] = {"_logical": _logical, "_logical_not": _logical_not}
    for name, value in names.items():
        function = getattr(value, "fn", None)  # the function inside the object that triton.jit returned
        if not inspect.isfunction(function):
            scope[name] = getattr(value, "value", value)  # the number inside a constexpr
    scope |= {name: getattr(modules, name) for name in ("tl", "triton", "libdevice", "math")}
    for value in names.values():
        function = getattr(value, "fn", None)
        if inspect.isfunction(function):
            exec(_compiled(textwrap.dedent(inspect.getsource(function)), function.__name__, only_function=True), scope)
    scope["sort_with_index"] = _sort_with_index
    return _Names(**{name: value for name, value in scope.items() if not name.startswith("__")})


_HEURISTICS = (
    *("pointwise", "reduction", "persistent_reduction", "cooperative_reduction", "split_scan"),
    *("template", "user_autotune", "foreach", "fixed_config"),
)


def _decorator(function: Any = None, **_: Any) -> Any:
    return function if function is not None else _decorator


def _executed(source: str, name: str, triton: Any, modules: Any) -> dict[str, Any]:
    """Execute source code that imports Triton and Inductor's runtime, with replacements for these modules."""

    def imported(module: str, scope: Any = None, local: Any = None, wanted: Any = (), level: int = 0) -> Any:
        if module.split(".")[0] == "triton":
            if wanted and module != "triton":
                return modules if "libdevice" in wanted else modules.tl
            return triton
        if level or module.startswith("torch._inductor.runtime"):
            if wanted and all(one in _KEPT for one in wanted):
                return builtins.__import__(module, scope, local, wanted, level)
            return modules
        return builtins.__import__(module, scope, local, wanted, level)

    scope: dict[str, Any] = {"__name__": f"{name} on the CPU", "__file__": "", "__package__": "torch._inductor.runtime"}
    scope |= {"_logical": _logical, "_logical_not": _logical_not}
    scope["__builtins__"] = {**vars(builtins), "__import__": imported}
    exec(_compiled(source, name), scope)
    if "import triton.language as tl" in source:
        scope["tl"] = modules.tl
    return scope


class _Logic(ast.NodeTransformer):
    """A transformer that makes ``not``, ``and`` and ``or`` act elementwise on blocks, as in Triton."""

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.AST:
        self.generic_visit(node)
        if not isinstance(node.op, ast.Not):
            return node
        return ast.Call(ast.Name("_logical_not", ast.Load()), [node.operand], [])

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.AST:
        self.generic_visit(node)
        name = ast.Constant("and" if isinstance(node.op, ast.And) else "or")
        operands: list[ast.expr] = [
            ast.Lambda(ast.arguments([], [], None, [], [], None, []), value) for value in node.values
        ]
        return ast.Call(ast.Name("_logical", ast.Load()), [name, *operands], [])


def _logical_not(value: Any) -> Any:
    return ~value.to(INT1) if isinstance(value, Block) else not value


def _logical(operator: str, *operands: Callable[[], Any]) -> Any:
    """Compute ``and`` or ``or``. An operand that is not a block may end the evaluation early, as in Python."""
    result = operands[0]()
    for operand in operands[1:]:
        if not isinstance(result, Block):
            if bool(result) == (operator == "or"):
                return result
            result = operand()
            continue
        other = operand()
        result = result & other if operator == "and" else result | other
    return result


def _compiled(source: str, name: str, *, only_function: bool = False) -> CodeType:
    """Compile source code without evaluating its annotations. If ``only_function`` is true, the source is a single
    function, and its decorators are removed.
    """
    tree = _Logic().visit(ast.parse(source.lstrip(), f"<{name}>"))
    if only_function:
        tree.body[0].decorator_list = []
    flags = __future__.annotations.compiler_flag
    code: CodeType = compile(ast.fix_missing_locations(tree), f"<{name}>", "exec", flags)
    return code


_KEPT = ("AutotuneHint", "ReductionHint", "TileHint", "DeviceProperties", "instance_descriptor")


def _argument(name: str, value: Any, kind: str) -> Any:
    """Convert an argument for a kernel. Integers get the width that the kernel's signature specifies, so that they
    overflow as on a GPU.
    """
    if isinstance(value, torch.Tensor):
        if value.dtype not in OF_TORCH:
            raise NotInterpreted(f"a tensor of dtype {value.dtype}")
        return Pointer(name, value)
    if isinstance(value, bool) or kind == "constexpr" or not isinstance(value, (int, float)):
        return value
    dtypes = {"i32": torch.int32, "i64": torch.int64, "fp32": torch.float32, "fp64": torch.float64}
    return Block(torch.tensor([value], dtype=dtypes[kind], device="cpu")) if kind in dtypes else value


def _sort_with_index(
    x: Block, idxs: Block, rnumel: Any, dim: int, stable: bool = False, descending: bool = False
) -> Any:
    """Sort blocks as Inductor's helper ``sort_with_index`` does. Elements from index ``rnumel`` onward stay at the end,
    and NaN counts as the largest value.
    """
    size = x.data.shape[-1]
    data, index = torch.broadcast_tensors(x.data, idxs.data)
    count = size if rnumel is None else int(rnumel)
    order = data[..., :count].sort(dim=-1, stable=True, descending=descending).indices
    order = torch.cat([order, torch.arange(count, size, device="cpu").expand(*order.shape[:-1], size - count)], -1)
    return Block(data.gather(-1, order), x.dtype), Block(index.gather(-1, order), idxs.dtype)
