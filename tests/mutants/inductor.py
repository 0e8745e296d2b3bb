"""Mutants and honest checks on Inductor: the graph is changed between AOTAutograd and code generation."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import torch
import torch._inductor.config
from torch import fx
from torch._guards import TracingContext
from torch._inductor.compile_fx import compile_fx, compile_fx_inner

from tests.mutants.mutate import Role, choose, mutated, mutations, output_of


class InductorMutation:
    """The change that a seed stands for, chosen once the graph is there."""

    def __init__(self, seed: int, train: bool) -> None:
        self._seed = seed
        self._role: Role = "backward" if train and seed % 2 else "forward"
        self.kind = "none"
        self._said = "nothing could be changed"

    def __str__(self) -> str:
        return self._said

    def change(self, module: fx.GraphModule, role: Role) -> fx.GraphModule:
        """The graph with the change made, if it belongs in this one."""
        if role != self._role:
            return module
        rng = random.Random(self._seed)
        mutation = choose(mutations(module.graph, role, _visible(module, role), rng), rng)
        self.kind, self._said = mutation.kind, str(mutation)
        return fx.GraphModule(module, mutated(module.graph, mutation))


def _visible(module: fx.GraphModule, role: Role) -> int:
    """How many results of a graph the caller sees: what a forward saves for backward comes after them."""
    count = len(output_of(module.graph).args[0])
    context = TracingContext.try_get()
    if role == "backward" or context is None or context.fw_metadata is None:
        return count
    return min(count, context.fw_metadata.num_forward_returns)


def backend(mutation: InductorMutation | None) -> Callable[..., Any]:
    """Inductor as a backend, with a mutation in one of its graphs, or without."""

    def inner(module: fx.GraphModule, inputs: Any, **options: Any) -> Any:
        if mutation is not None:
            module = mutation.change(module, "backward" if options.get("is_backward") else "forward")
        return compile_fx_inner(module, inputs, **options)

    def compile_(module: fx.GraphModule, inputs: Any, **_: Any) -> Any:
        with torch._inductor.config.patch(fallback_random=True, fx_graph_cache=False):
            return compile_fx(module, inputs, inner_compile=inner)

    return compile_
