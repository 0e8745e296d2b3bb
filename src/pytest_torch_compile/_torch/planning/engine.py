"""Run autograd without a GPU, by calling the nodes of the autograd graph from Python.

This module replaces ``torch.autograd.grad`` and ``torch.autograd.backward`` (which ``Tensor.backward`` calls). For CUDA
tensors, torch's C++ engine requests streams from the driver and uses a thread for each device. The Python engine in
this module calls the nodes in the same order as the C++ engine. Like the C++ engine, the Python engine sums gradients
over broadcast dimensions and casts gradients. Tensor hooks do not run.

AOTAutograd asks the engine whether the autograd graph is retained. If the graph is not retained, the compiled backward
pass may release saved tensors early and reuse their memory. So this module also replaces the torch function that
reports whether the graph is retained.

This module uses these private torch names, checked with torch 2.11, 2.13 and 2.15: ``_sequence_nr`` and
``_input_metadata`` of a node, ``torch._C._autograd._get_current_graph_task_keep_graph``,
``torch.autograd.Variable._execution_engine``, ``torch.utils._python_dispatch._disable_current_modes``,
``set_stack_trace`` and ``set_grad_fn_seq_nr`` of ``torch.fx.traceback``.
"""

from __future__ import annotations

import heapq
import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
import torch.fx.traceback as fx_traceback
from torch.autograd.graph import get_gradient_edge
from torch.utils._python_dispatch import _disable_current_modes

Node = Any
Edge = tuple[Node, int]
_keeps_graph: list[bool] = []  # whether each running backward pass retains its graph; the innermost is last


def put_engine() -> None:
    """Replace torch's engine with the Python engine in this module, for the rest of the process."""
    torch.autograd.grad, torch.autograd.backward = grad, backward
    core: Any = torch._C._autograd
    core._get_current_graph_task_keep_graph = lambda: _keeps_graph[-1] if _keeps_graph else True


def grad(
    outputs: Any,
    inputs: Any,
    grad_outputs: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    only_inputs: bool = True,
    allow_unused: bool | None = None,
    is_grads_batched: bool = False,
    materialize_grads: bool = False,
) -> tuple[torch.Tensor | None, ...]:
    """Compute gradients as ``torch.autograd.grad`` does, but with the Python engine."""
    inputs = _as_list(inputs)
    edges = [_edge(tensor) for tensor in inputs]
    with _keeping(retain_graph, create_graph):
        found = _walk(_roots(_as_list(outputs), grad_outputs), set(edges), create_graph)
    gradients = [found.get(edge) for edge in edges]
    if materialize_grads:
        pairs = zip(gradients, inputs, strict=True)
        gradients = [torch.zeros_like(tensor) if gradient is None else gradient for gradient, tensor in pairs]
    return tuple(gradients)


def backward(
    tensors: Any,
    grad_tensors: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    grad_variables: Any = None,
    inputs: Any = None,
) -> None:
    """Run backward as ``torch.autograd.backward`` does, but with the Python engine. The ``AccumulateGrad`` node of a
    leaf tensor adds the gradient to the tensor's ``.grad``.
    """
    only = None if inputs is None else {_edge(tensor)[0] for tensor in _as_list(inputs)}

    def run() -> None:
        _walk(_roots(_as_list(tensors), grad_tensors), None, create_graph, only)

    with _keeping(retain_graph, create_graph):
        _inside_torchs_engine(run, keep_graph=_keeps_graph[-1], create_graph=create_graph)


class _Step(torch.autograd.Function):
    """An autograd function whose backward pass calls the function ``run``."""

    @staticmethod
    def forward(ctx: Any, trigger: torch.Tensor, run: Callable[[], None]) -> torch.Tensor:
        ctx.run = run
        return trigger.clone()

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        ctx.run()
        return None, None


def _inside_torchs_engine(run: Callable[[], None], *, keep_graph: bool, create_graph: bool) -> None:
    """Call ``run`` during a backward pass of torch's engine over a graph on the CPU. Without this backward
    pass, compiled code would not release its saved tensors early, and the predicted peak memory would be too high.
    """
    with _disable_current_modes(), torch.enable_grad():
        output = _Step.apply(torch.zeros((), device="cpu", requires_grad=True), run)
        gradient = torch.ones((), device="cpu")
    engine: Any = torch.autograd.Variable._execution_engine
    engine.run_backward(
        (output,), (gradient,), keep_graph, create_graph, (), allow_unreachable=True, accumulate_grad=True
    )


@contextmanager
def _keeping(retain_graph: bool | None, create_graph: bool) -> Iterator[None]:
    _keeps_graph.append(create_graph if retain_graph is None else retain_graph)
    try:
        yield
    finally:
        _keeps_graph.pop()


def _as_list(tensors: Any) -> list[torch.Tensor]:
    return [tensors] if isinstance(tensors, torch.Tensor) else list(tensors)


def _edge(tensor: torch.Tensor) -> Edge:
    edge = get_gradient_edge(tensor)
    return edge.node, edge.output_nr


def _roots(outputs: Sequence[torch.Tensor], gradients: Any) -> list[tuple[Edge, torch.Tensor]]:
    given = [None] * len(outputs) if gradients is None else _as_list(gradients)
    return [
        (_edge(output), torch.ones_like(output) if gradient is None else gradient)
        for output, gradient in zip(outputs, given, strict=True)
        if output.requires_grad
    ]


def _walk(
    roots: Sequence[tuple[Edge, torch.Tensor]],
    captured: set[Edge] | None,
    create_graph: bool,
    leaves: set[Node] | None = None,
) -> dict[Edge, torch.Tensor]:
    """Run the nodes of the autograd graph, starting with the roots, and return the gradients that arrive at the
    ``captured`` edges.

    If ``captured`` is None, backward continues to the nodes in ``leaves``. If ``leaves`` is None as well, backward
    continues to the nodes of all leaf tensors.
    """
    nodes = _reachable(node for (node, _), _ in roots)
    ends = {node for node, _ in captured} if captured is not None else leaves
    needed = nodes if ends is None else _leading_to(ends, nodes)
    waiting = Counter(child for node in needed for child, _ in node.next_functions if child in needed)
    arrived: dict[Node, dict[int, torch.Tensor]] = {}
    found: dict[Edge, torch.Tensor] = {}
    ready: list[tuple[int, int, Node]] = []
    tie = itertools.count()  # for nodes with the same sequence number, because nodes cannot be compared

    def add(edge: Edge, gradient: torch.Tensor) -> None:
        node, position = edge
        gradient = _fitted(gradient, node._input_metadata[position]) if node._input_metadata else gradient
        at_node = arrived.setdefault(node, {})
        at_node[position] = gradient if position not in at_node else at_node[position] + gradient

    def push(node: Node) -> None:
        heapq.heappush(ready, (-node._sequence_nr(), next(tie), node))  # the node that forward created last runs first

    for edge, gradient in roots:
        add(edge, gradient)
    for node in dict.fromkeys(node for (node, _), _ in roots):
        if node in needed and not waiting[node]:
            push(node)
    while ready:
        node = heapq.heappop(ready)[2]
        gradients = arrived.pop(node, {})
        found |= {(node, position): gradient for position, gradient in gradients.items() if captured}
        goes_on = any(child in needed for child, _ in node.next_functions)
        runs = gradients and (goes_on or (captured is None and not node.next_functions))
        results = _called(node, gradients, create_graph) if runs else ()
        # A node that did not run has no results, but its children no longer wait for it.
        for (child, position), result in itertools.zip_longest(
            node.next_functions, results[: len(node.next_functions)]
        ):
            if child not in needed:
                continue
            if result is not None:
                add((child, position), result)
            waiting[child] -= 1
            if not waiting[child]:
                push(child)
    return found


def _reachable(starts: Iterable[Node]) -> set[Node]:
    seen: set[Node] = set()
    todo = list(starts)
    while todo:
        node = todo.pop()
        if node is not None and node not in seen:
            seen.add(node)
            todo += [child for child, _ in node.next_functions]
    return seen


def _leading_to(ends: set[Node], nodes: set[Node]) -> set[Node]:
    """Return the nodes from which gradients flow to a node in ``ends``, including the nodes in ``ends``."""
    parents: dict[Node, list[Node]] = {}
    for node in nodes:
        for child, _ in node.next_functions:
            parents.setdefault(child, []).append(node)
    leading, todo = set(ends), list(ends)
    while todo:
        for parent in parents.get(todo.pop(), ()):
            if parent not in leading:
                leading.add(parent)
                todo.append(parent)
    return leading


def _called(node: Node, gradients: dict[int, torch.Tensor], create_graph: bool) -> Sequence[torch.Tensor | None]:
    """Call a node with its incoming gradients, and return the gradients that it computes.

    As in torch's engine, a missing gradient is passed as None to a C++ node, and as zeros to an ``autograd.Function``.
    If a gradient is None, a C++ node may use another formula.
    """
    if not create_graph and _is_first_gradient(node, gradients):
        node.variable.grad = gradients[0].detach()
        return ()
    given = [gradients.get(position) for position in range(max(len(node._input_metadata), max(gradients) + 1))]
    if not callable(node):
        for position, meta in enumerate(node._input_metadata):
            if given[position] is None:
                given[position] = torch.zeros(tuple(meta.shape), dtype=meta.dtype, device=meta.device)
    with torch.set_grad_enabled(create_graph), _stack_of(node):
        results = node(*given) if callable(node) else node.apply(*given)
    results = results if isinstance(results, (tuple, list)) else [results]
    if len(results) == len(node.next_functions) or not hasattr(node, "needs_input_grad"):
        return results
    # A compiled graph's node also returns None for each input that is a size, for which the node has no edge.
    of_tensors = iter([result for result, needed in zip(results, node.needs_input_grad, strict=False) if needed])
    return [None if child is None else next(of_tensors, None) for child, _ in node.next_functions]


def _is_first_gradient(node: Node, gradients: dict[int, torch.Tensor]) -> bool:
    """Return whether the incoming gradient is the first gradient of a leaf tensor and has the tensor's strides.

    torch's engine stores such a gradient in ``.grad`` without a copy, but a node that is called from Python would copy
    the gradient.
    """
    leaf = getattr(node, "variable", None)
    return leaf is not None and leaf.grad is None and gradients[0].stride() == leaf.stride()


@contextmanager
def _stack_of(node: Node) -> Iterator[None]:
    """Inside the ``with`` block, attribute each traced op to the line of user code that called the node's forward op.
    AOTAutograd's node hooks do the same.
    """
    stack = node.metadata.get("traceback_", [])
    fx_traceback.set_stack_trace(stack)
    fx_traceback.set_grad_fn_seq_nr(node._sequence_nr())
    try:
        yield
    finally:
        fx_traceback.set_stack_trace([*stack, fx_traceback.GRADIENT_ACC_SPECIAL_STACK])
        fx_traceback.reset_grad_fn_seq_nr()


def _fitted(gradient: torch.Tensor, meta: Any) -> torch.Tensor:
    """Sum, expand and cast a gradient to the shape and dtype in ``meta``."""
    shape = tuple(meta.shape)
    if tuple(gradient.shape) != shape:
        gradient = gradient.sum_to_size(shape) if gradient.ndim >= len(shape) else gradient.expand(shape)
    if gradient.dtype != meta.dtype and not (gradient.dtype.is_complex or meta.dtype.is_complex):
        gradient = gradient.to(meta.dtype)
    return gradient
