"""Collect the modules that Inductor generates. The modules are written and loaded as usual, but their kernels do
nothing.

So the generated code can run on fake tensors, and a plan includes allocations, the graphs after a graph break, the
backward pass and later calls. This module replaces:

- the methods of ``AsyncCompile`` that compile a kernel;
- the allocation functions that generated modules import from ``torch._C._dynamo.guards``;
- ``cudagraphify``, which would record a CUDA graph.

This module uses these private torch names, checked with torch 2.11, 2.13 and 2.15: ``cudagraph_utils``,
``GraphLowering.codegen``, ``compile_to_module``, ``count_bytes``, ``graph`` and ``is_backward``, ``ValueWithLineMap``,
``AsyncCompile``, ``PyCodeCache``, ``torch.utils._pytree`` and the names above.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.utils._pytree import tree_iter, tree_map
from torch.utils.flop_counter import flop_registry


@dataclass
class Generated:
    """One generated graph: its source, the stack traces of user code (keyed by line of the source), and Inductor's
    information about the graph.

    ``runs`` contains, for each run of the graph, the number (1, 2, ...) of the call that ran it. ``kernels`` maps
    kernel names to sources. ``ops`` maps each op of the graph to the stack trace of its first call in user code.
    ``flops`` maps each dtype, such as ``bfloat16``, to the number of floating-point operations in matrix products,
    convolutions and attention. ``flops`` is None if torch cannot count these operations.
    """

    source: str
    stacks: dict[int, str]
    backward: bool
    bytes_moved: int | None
    runs: list[int] = field(default_factory=list)
    kernels: dict[str, str] = field(default_factory=dict)
    ops: dict[str, str] = field(default_factory=dict)
    flops: Mapping[str, int] | None = field(default_factory=dict)


@dataclass
class Generator:
    """The graphs that have been generated so far. ``call`` is the number of the current call, starting with 1.

    ``launch`` is called with a kernel's name, source and arguments, and runs the kernel. ``launch`` is set only if the
    generated code must compute values.
    """

    graphs: list[Generated] = field(default_factory=list)
    cudagraphs: int = 0
    call: int = 0
    launch: Callable[[str, str, Sequence[Any]], None] | None = None

    def clear(self) -> None:
        """Discard all graphs and reset the other fields, so that the next target can be compiled."""
        self.graphs, self.cudagraphs, self.call, self.launch = [], 0, 0, None


@dataclass
class _Kernel:
    """A generated kernel. Running a kernel does nothing, unless ``generator.launch`` is set."""

    generator: Generator
    name: str
    source: str

    def run(self, *args: Any, **kwargs: Any) -> None:
        """Launch the kernel with ``generator.launch``, if ``generator.launch`` is set."""
        if self.generator.launch is not None:
            self.generator.launch(self.name, self.source, args)

    __call__ = run


def put_generator() -> Generator:
    """For the rest of the process, collect generated modules, and load them with kernels that do nothing."""
    from torch._inductor import compile_fx, cudagraph_utils
    from torch._inductor.async_compile import AsyncCompile
    from torch._inductor.graph import GraphLowering

    generator = Generator()
    codegen, compile_to_module = GraphLowering.codegen, GraphLowering.compile_to_module

    def codegen_noted(self: Any) -> Any:
        code = codegen(self)
        generator.graphs.append(_generated(self, code))
        return code

    def compile_and_note_runs(self: Any) -> Any:
        before = len(generator.graphs)
        module = compile_to_module(self)
        graph = generator.graphs[before]
        if not graph.kernels:  # a module with the same source is loaded only once
            graph.kernels = next(one.kernels for one in generator.graphs if one.source == graph.source)
        # A module that is loaded again already has a function that notes runs, for an earlier graph.
        call = vars(module).setdefault("call_of_module", module.call)

        def noted(args: Any) -> Any:
            graph.runs.append(generator.call)
            return call(args)

        module.call = noted
        return module

    def triton(self: Any, name: str, source: str, **device: str) -> _Kernel:
        generator.graphs[-1].kernels[name] = source
        return _Kernel(generator, name, source)

    def cudagraphify(model: Callable[..., Any], static_input_idxs: Any = (), **more: Any) -> Callable[..., Any]:
        changed = [index for index in more.get("mutated_input_idxs", ()) if index not in static_input_idxs]
        if changed:  # torch would not record a CUDA graph
            reason = cudagraph_utils.get_mutation_stack_trace(more["placeholders"], changed)
            cudagraph_utils.log_cudagraph_skip_and_bump_counter(reason)
        else:
            generator.cudagraphs += 1
        return model

    patched: Any = GraphLowering
    patched.codegen, patched.compile_to_module = codegen_noted, compile_and_note_runs
    compiling: Any = AsyncCompile
    compiling.triton = triton
    others = _Kernel(generator, "(for the host, or chosen by timing)", "")
    compiling.cpp = compiling.cpp_pybinding = compiling.multi_kernel = lambda self, *args, **kwargs: others
    fx: Any = compile_fx
    fx.cudagraphify = cudagraphify
    _put_allocations()
    return generator


def _put_allocations() -> None:
    guards: Any = torch._C._dynamo.guards

    def allocating(device: str) -> Callable[..., torch.Tensor]:
        return lambda size, stride, dtype: torch.empty_strided(size, stride, dtype=dtype, device=device)

    guards._empty_strided_cuda = allocating("cuda")
    guards._empty_strided_cpu = guards._empty_strided_cpu_pinned = allocating("cpu")
    guards._reinterpret_tensor = lambda tensor, size, stride, offset=0: torch.as_strided(
        tensor, size, stride, tensor.storage_offset() + offset
    )


def _generated(graph: Any, code: Any) -> Generated:
    """Create the record of a graph whose code was just generated."""
    text, lines = code[0], getattr(code[0], "line_map", code[1])
    nodes = [(line, getattr(node, "stack_trace", None) or "") for line, node in lines or ()]
    try:
        moved = int(graph.count_bytes()[0])
    except Exception:  # only an estimate; some nodes with dynamic shapes have no size
        moved = None
    backward = bool(getattr(graph, "is_backward", False))
    source, ops, flops = str(getattr(text, "value", text)), _ops(graph.graph.nodes), _flops(graph.graph.nodes)
    return Generated(source, dict(nodes), backward, moved, ops=ops, flops=flops)


def _ops(nodes: Any) -> dict[str, str]:
    found: dict[str, str] = {}
    for node in nodes:
        op, stack = node.meta.get("original_aten"), node.stack_trace
        if op is not None and stack:
            found.setdefault(str(getattr(op, "_overloadpacket", op)), stack)
    return found


def _flops(nodes: Iterable[Any]) -> dict[str, int] | None:
    """Return the number of floating-point operations in each dtype, as counted by ``torch.utils.flop_counter``, or None
    if the operations cannot be counted. For a dynamic size, the size of the first call is used.
    """
    found: Counter[str] = Counter()
    for node in nodes:
        formula = flop_registry.get(getattr(node.target, "overloadpacket", node.target))
        if node.op != "call_function" or formula is None:
            continue
        args, kwargs = tree_map(lambda value: value.meta.get("val") if isinstance(value, torch.fx.Node) else value,
                                (node.args, node.kwargs))  # fmt: skip
        dtypes = [value.dtype for value in tree_iter(args) if isinstance(value, torch.Tensor)]
        try:
            flops = formula(*args, **kwargs, out_val=node.meta.get("val"))
            found[str(dtypes[0]).removeprefix("torch.")] += int(
                flops.node.hint if isinstance(flops, torch.SymInt) else flops
            )
        except Exception:  # some formulas do not know all arguments, and a size may depend on data
            return None
    return dict(found)
