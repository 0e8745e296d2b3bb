"""Graphs run the way a compiler may: decomposed, with additions in another order, half types kept wide in between."""

from __future__ import annotations

import random
from typing import Any

import torch
from torch import fx

aten, prims = torch.ops.aten, torch.ops.prims
HALF = (torch.bfloat16, torch.float16)
VIEWS = {
    aten.view.default, aten.permute.default, aten.expand.default, aten.unsqueeze.default, aten.squeeze.dims,
    aten.reshape.default, aten.transpose.int, aten.slice.Tensor, aten.select.int, aten.t.default,
}  # fmt: skip
POINTWISE = {
    aten.add.Tensor, aten.sub.Tensor, aten.mul.Tensor, aten.div.Tensor, aten.neg.default, aten.exp.default,
    aten.erf.default, aten.tanh.default, aten.sigmoid.default, aten.relu.default, aten.rsqrt.default,
    aten.sqrt.default, aten.pow.Tensor_Scalar, aten.where.self, aten.abs.default, aten.reciprocal.default,
    aten.cos.default, aten.sin.default, aten.maximum.default, aten.minimum.default, aten.clamp_min.default,
}  # fmt: skip


class Honest(fx.Interpreter):
    """Runs a graph; ``seed`` chooses which of the legitimate liberties are taken where. Seed 0 takes none."""

    def __init__(self, module: fx.GraphModule, graph: fx.Graph, seed: int) -> None:
        super().__init__(module, graph=graph)
        # By name: a changed graph that lacks a node, or has one more, runs the others in the same way.
        self._reorders = seed % 2 == 1
        self._widens = seed // 2 % 2 == 1
        self._chosen = {node: random.Random(f"{seed} {node.name}").random() < 0.7 for node in graph.nodes}
        self._split = random.Random(seed).uniform(0.3, 0.7)
        self._returned = _returned(graph)

    def run_node(self, n: fx.Node) -> Any:
        if n.op == "output" or n.op != "call_function":
            self._narrow_inputs(n)
            return super().run_node(n)
        if (
            self._widens
            and n not in self._returned
            and not n.meta.get("mutation")
            and n.target in POINTWISE | VIEWS | {prims.convert_element_type.default}
        ):
            return self._wide(n)
        self._narrow_inputs(n)
        if self._reorders and self._chosen[n]:
            return self._reordered(n)
        return super().run_node(n)

    def _narrow_inputs(self, n: fx.Node) -> None:
        for used in n.all_input_nodes:
            value = self.env.get(used)
            if isinstance(value, torch.Tensor):
                self.env[used] = _narrowed(value, used)

    def _wide(self, n: fx.Node) -> Any:
        """A half-type op computed in fp32, its result not rounded, as in a fused kernel."""
        value = n.meta.get("val")
        args, kwargs = self.fetch_args_kwargs_from_env(n)
        if n.target is prims.convert_element_type.default:
            keeps = value.dtype in HALF and args[0].dtype == torch.float32 and self._chosen[n]
            # What an earlier op left wide stands for a half type: its rounding is what fusion leaves out.
            return args[0] if keeps else args[0].to(value.dtype)
        if n.target in VIEWS:
            return n.target(*args, **kwargs)
        if isinstance(value, torch.Tensor) and value.dtype in HALF:
            args = fx.node.map_aggregate(args, lambda a: a.float() if _is_half(a) else a)
            result = n.target(*args, **kwargs)
            return result if self._chosen[n] else result.to(value.dtype)
        return n.target(*args, **kwargs)

    def _reordered(self, n: fx.Node) -> Any:
        args, kwargs = self.fetch_args_kwargs_from_env(n)
        if n.target in (aten.mm.default, aten.bmm.default):
            return self._split_product(n.target, *args)
        if n.target is aten.addmm.default and not kwargs:
            return self._split_product(aten.mm.default, args[1], args[2], args[0])
        if n.target is aten.sum.dim_IntList and args[0].is_floating_point() and len(args[1]) and not kwargs:
            return self._split_sum(*args)
        return super().run_node(n)

    def _split_product(
        self, op: Any, left: torch.Tensor, right: torch.Tensor, bias: torch.Tensor | None = None
    ) -> torch.Tensor:
        middle = max(1, int(left.shape[-1] * self._split))
        wide = [t.float() if t.dtype in HALF else t for t in (left, right)]
        total = op(wide[0][..., :middle], wide[1][..., :middle, :])
        total = total + op(wide[0][..., middle:], wide[1][..., middle:, :])
        return (total if bias is None else total + bias).to(left.dtype)

    def _split_sum(self, value: torch.Tensor, dims: list[int], keepdim: bool = False) -> torch.Tensor:
        dtype = value.dtype
        wide = value.float() if dtype in HALF else value
        middle = max(1, int(value.shape[dims[-1]] * self._split))
        first, second = wide.split([middle, value.shape[dims[-1]] - middle], dims[-1])
        return (first.sum(dims, keepdim) + second.sum(dims, keepdim)).to(dtype)


def _returned(graph: fx.Graph) -> set[fx.Node]:
    """What the graph returns, and what that is a view of: such memory is the caller's, in the dtype it has."""
    found = set(graph.output_node().all_input_nodes)
    for node in reversed(graph.nodes):
        if node in found and node.target in VIEWS:
            found.add(node.args[0])
    return found


def _is_half(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.dtype in HALF


def _narrowed(value: torch.Tensor, node: fx.Node) -> torch.Tensor:
    known = node.meta.get("val")
    if isinstance(known, torch.Tensor) and known.dtype in HALF and value.dtype == torch.float32:
        return value.to(known.dtype)
    return value
