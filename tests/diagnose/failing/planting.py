"""Defects planted in torch, each undone when its context ends."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

import torch
from torch._inductor import config, decomposition


@contextmanager
def decomposed_as(op: Any, wrong: Callable[..., Any]) -> Iterator[None]:
    """The op's entry in Inductor's table of decompositions is another one."""
    with mock.patch.dict(decomposition.decompositions, {op: wrong}):
        decomposition.fast_random_decomps.cache_clear()
        try:
            yield
        finally:
            decomposition.fast_random_decomps.cache_clear()


@contextmanager
def not_decomposed(op: Any) -> Iterator[None]:
    with mock.patch.dict(decomposition.decompositions):
        del decomposition.decompositions[op]
        decomposition.fast_random_decomps.cache_clear()
        try:
            yield
        finally:
            decomposition.fast_random_decomps.cache_clear()


@contextmanager
def inductor(**settings: Any) -> Iterator[None]:
    """Inductor under other settings; what is compiled from a planted defect is kept in no cache."""
    with config.patch({"force_disable_caches": True, **settings}):
        yield


@contextmanager
def lowered_as(op: Any, other: Any) -> Iterator[None]:
    """Inductor lowers an op as if it was another one."""
    from torch._inductor.lowering import lowerings

    with inductor(), mock.patch.dict(lowerings, {op: lowerings[other]}):
        yield


@contextmanager
def float32_by_way_of_float16() -> Iterator[None]:
    """Inductor's cast to float32 loses what float16 does not hold."""
    from torch._inductor.codegen import cpp

    right = cpp.CppOverrides.to_dtype

    def wrong(x: Any, dtype: Any, *args: Any, **options: Any) -> Any:
        code = right(x, dtype, *args, **options)
        return f"static_cast<float>(static_cast<at::Half>({code}))" if dtype is torch.float32 else code

    with inductor(**{"cpp.simdlen": 1}), mock.patch.object(cpp.CppOverrides, "to_dtype", staticmethod(wrong)):
        yield


@contextmanager
def left_to_aten(op: Any) -> Iterator[None]:
    from torch._inductor.lowering import fallback_handler, lowerings

    with mock.patch.dict(lowerings, {op: fallback_handler(op, add_to_fallback_set=False)}):
        yield


@contextmanager
def generated_as(name: str, other: str, *, only_vectors: bool = False) -> Iterator[None]:
    """The C++ that Inductor writes for one op is that of another, everywhere or in vectorised loops only."""
    from torch._inductor.codegen import cpp

    with inductor(), mock.patch.object(cpp.CppVecOverrides, name, staticmethod(getattr(cpp.CppVecOverrides, other))):
        if only_vectors:
            yield
            return
        with mock.patch.object(cpp.CppOverrides, name, staticmethod(getattr(cpp.CppOverrides, other))):
            yield


def replacing(old: Any, new: Any) -> Callable[[Any], None]:
    """A pass over a graph that puts one op in the place of another."""

    def replace_ops(graph: Any) -> None:
        for node in getattr(graph, "graph", graph).nodes:
            if node.target is old:
                node.target = new

    return replace_ops


@contextmanager
def pattern(old: Any, new: Any) -> Iterator[None]:
    """A pattern of Inductor's pattern matcher that rewrites an op with one argument into another op."""
    from torch._inductor.fx_passes import post_grad
    from torch._inductor.pattern_matcher import CallFunction, KeywordArg, PatternMatcherPass, register_graph_pattern

    planted = PatternMatcherPass()

    def rewrite(match: Any, x: Any) -> None:
        match.replace_by_example(lambda x: new(x), [x])

    register_graph_pattern(CallFunction(old, KeywordArg("x")), pass_dict=planted)(rewrite)
    with inductor(), mock.patch.object(post_grad, "pass_patterns", [*post_grad.pass_patterns, planted]):
        yield


@contextmanager
def partitioned_with_wrong_gradients(*, only_for_inductor: bool) -> Iterator[None]:
    """The backward graph that the partitioner cuts out gives gradients that are 5 % too large."""
    from torch._dynamo.backends import debugging
    from torch._functorch.partitioners import min_cut_rematerialization_partition as cut

    def wrong(*args: Any, **options: Any) -> Any:
        forward, backward = cut(*args, **options)
        if only_for_inductor and options.get("compiler") != "inductor":
            return forward, backward
        graph = backward.graph
        output = next(node for node in graph.nodes if node.op == "output")
        with graph.inserting_before(output):
            results = [one and graph.call_function(torch.ops.aten.mul.Tensor, (one, 1.05)) for one in output.args[0]]
        output.args = (tuple(results),)
        backward.recompile()
        return forward, backward

    with mock.patch.object(debugging, "min_cut_rematerialization_partition", wrong):
        yield
