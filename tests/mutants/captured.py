"""A model's graphs, captured once and run many times: as they are, in another honest way, or with one thing changed."""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import contextmanager
from functools import cached_property
from typing import Any

import torch
import torch._inductor.lowering
from functorch.compile import aot_function, make_boxed_func, min_cut_rematerialization_partition
from torch import fx, nn
from torch._inductor import config as inductor_config
from torch._inductor.decomposition import select_decomp_table
from torch.func import functional_call

from pytest_torch_compile.numerics import flatten
from tests.mutants.exact import Exact
from tests.mutants.honest import Honest
from tests.mutants.mutate import Mutation, Role, choose, mutated, mutations, output_of


class Captured:
    """Stands in for ``torch.compile``: ``captured.compile(module)`` runs the captured graphs on the module's state."""

    def __init__(self, module: nn.Module, inputs: dict[str, Any], *, train: bool) -> None:
        self.graphs: dict[Role, fx.GraphModule] = {}
        self.visible: dict[Role, int] = {}
        self._active: dict[Role, fx.Graph] = {}
        self._style = 0
        self._exact = False
        self._lost: str | None = None
        self._module = module
        inductor_config.fallback_random = True
        self._function = aot_function(
            lambda state, args: functional_call(module, state, kwargs=args),
            fw_compiler=lambda gm, _: self._take("forward", gm),
            bw_compiler=lambda gm, _: self._take("backward", gm),
            partition_fn=min_cut_rematerialization_partition,
            decompositions=select_decomp_table(),
        )
        with torch.set_grad_enabled(train), _said_to_be_compiling():
            output = self.compile(module)(**inputs)
            leaves = _floating(output)
            self.visible["forward"] = len(leaves) + self._written(module, train)
            if train:
                needed = [leaf for leaf in leaves if leaf.requires_grad]
                torch.autograd.backward(needed, [torch.ones_like(leaf) for leaf in needed])
        for parameter in module.parameters():
            parameter.grad = None
        if train:
            self.visible["backward"] = len(output_of(self.graphs["backward"].graph).args[0])

    @staticmethod
    def _written(module: nn.Module, train: bool) -> int:
        return sum(1 for name, _ in module.named_buffers() if (train and "running" in name) or "num_batches" in name)

    def _take(self, role: Role, graph: fx.GraphModule) -> Callable[..., Any]:
        self.graphs[role], self._active[role] = graph, graph.graph
        return make_boxed_func(lambda *args: self._run(role, args))

    def _run(self, role: Role, args: tuple[Any, ...]) -> Any:
        if self._exact:
            return Exact(self.graphs[role], graph=self._active[role]).run(*args)
        return Honest(self.graphs[role], self._active[role], self._style).run(*args)

    def compile(self, module: nn.Module) -> Callable[..., Any]:
        """What the checker calls in place of ``torch.compile``."""

        def run(**kwargs: Any) -> Any:
            state = dict(module.named_parameters()) | dict(module.named_buffers())
            kept = {name: tensor.detach().clone() for name, tensor in state.items() if name == self._lost}
            output = self._function(state, kwargs)
            with torch.no_grad():
                for name, before in kept.items():
                    state[name].copy_(before)
            return output

        return run

    def mutation(self, seed: int) -> Mutation:
        """The change that a seed stands for."""
        return choose(self._candidates, random.Random(seed))

    @cached_property
    def _candidates(self) -> list[Mutation]:
        rng = random.Random(0)
        roles: list[Role] = list(self.graphs)
        candidates = [m for role in roles for m in mutations(self.graphs[role].graph, role, self.visible[role], rng)]
        written = [name for name, _ in self._module.named_buffers() if "running" in name]
        if self._module.training:
            candidates += [
                Mutation("dropped in-place write", "forward", name, "never written", lambda _: None) for name in written
            ]
        return candidates

    @contextmanager
    def changed(self, mutation: Mutation | None, style: int = 0, *, exact: bool = False) -> Any:
        """Run with one change, in one of the honest ways or in fp64."""
        self._style, self._exact = style, exact
        if mutation is not None and mutation.kind == "dropped in-place write":
            self._lost = mutation.node
        elif mutation is not None:
            self._active[mutation.role] = mutated(self.graphs[mutation.role].graph, mutation)
        try:
            yield {"compile": self.compile}
        finally:
            self._active = {role: module.graph for role, module in self.graphs.items()}
            self._lost, self._style, self._exact = None, 0, False


@contextmanager
def _said_to_be_compiling() -> Any:
    """Models look at this flag before they branch on the values of a mask."""
    before = torch.compiler._is_compiling_flag
    torch.compiler._is_compiling_flag = True
    try:
        yield
    finally:
        torch.compiler._is_compiling_flag = before


def _floating(output: Any) -> list[torch.Tensor]:
    return [tensor for tensor in flatten(output).tensors.values() if tensor.is_floating_point()]
