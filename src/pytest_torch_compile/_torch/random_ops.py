"""Make Inductor's random ops draw the same numbers as eager.

With ``fallback_random``, Inductor calls eager's random ops. They still draw other numbers than in eager in three cases:

- An op such as dropout draws a number for each element, in the order of the elements in memory. Inductor may choose a
  different order, for example channels last for convolutions. Therefore, the inputs of random ops keep eager's strides.
  torch does this itself for dropout in 2.15, but not for ``rand_like``. See
  https://github.com/pytorch/pytorch/issues/174078.
- Two passes of Inductor move ops whose results do not depend on each other, and so change the order in which they draw.
  Therefore, random ops keep eager's order. torch does this itself in 2.13 and newer versions.
- torch replaces ``bernoulli`` with ``rand`` and a comparison, and in 2.12 and older, RReLU with ``uniform``. On a GPU,
  ``rand`` draws other numbers than ``bernoulli``, and RReLU draws numbers only for negative elements. Therefore, these
  ops are not replaced. torch does this itself for RReLU in 2.13 and newer versions.

This module uses these private torch names, checked with torch 2.6, 2.8, 2.11, 2.13 and 2.15:
``torch._inductor.lowering.add_layout_constraint``, ``constrain_to_fx_strides`` and ``make_fallback``,
``torch._inductor.decomposition.decompositions``,
``torch._inductor.fx_passes.post_grad.reorder_for_locality`` and ``_chain_random_ops_for_ordering`` (2.13 and newer),
``torch._inductor.scheduler.Scheduler.compute_dependencies``, and ``additional_buffer_deps`` of Inductor's graphs (2.11
and newer).
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable
from typing import Any

import torch

_OPS = (
    "native_dropout rand_like randn_like randint_like bernoulli bernoulli_ rrelu_with_noise normal normal_ poisson "
    "uniform uniform_ exponential exponential_ geometric cauchy log_normal random random_"
)


# Part of the key of torch's compile caches, because code that was generated without these changes must not be used.
# Change this text with each change of the generated code.
CACHE_KEY_TAG = "pytest-torch-compile: random ops as in eager, 2"


@functools.cache
def draw_as_in_eager() -> None:
    """Change all later compilations of this process that use ``fallback_random``, so that they draw eager's numbers.

    Importing Inductor's lowerings takes about a second, so call this function only before code is compiled.
    """
    from torch._inductor.fx_passes import post_grad

    _keep_ops()
    _keep_strides()
    if not hasattr(post_grad, "_chain_random_ops_for_ordering"):
        _keep_order_in_graph()
        _keep_order_in_schedule()


def _keep_strides() -> None:
    from torch._inductor import config, lowering

    def eager_strides(node: Any, *args: Any, **kwargs: Any) -> tuple[Any, Any]:
        if not config.fallback_random:
            return args, kwargs
        constrained: tuple[Any, Any] = lowering.constrain_to_fx_strides(node, *args, **kwargs)
        return constrained

    for name in _OPS.split():
        if hasattr(torch.ops.aten, name):
            lowering.add_layout_constraint(getattr(torch.ops.aten, name), eager_strides)


def _keep_ops() -> None:
    from torch._inductor import config
    from torch._inductor.decomposition import decompositions
    from torch._inductor.lowering import lowerings, make_fallback

    def only_without_fallback(decompose: Callable[..., Any]) -> Callable[..., Any]:
        return lambda *args, **kwargs: NotImplemented if config.fallback_random else decompose(*args, **kwargs)

    aten = torch.ops.aten
    for op in (aten.bernoulli.default, aten.bernoulli.p, aten.rrelu_with_noise_functional.default):
        if op in decompositions:
            decompositions[op] = only_without_fallback(decompositions[op])
            if op not in lowerings:
                make_fallback(op, warn=False, override_decomp=True)


def _keep_order_in_graph() -> None:
    """Leave out the pass that moves the ops of an inference graph next to their users, if there are random ops."""
    from torch._inductor import config
    from torch._inductor.fx_passes import post_grad

    reorder = post_grad.reorder_for_locality

    @functools.wraps(reorder)
    def reorder_without_random_ops(graph: torch.fx.Graph) -> None:
        if not (config.fallback_random and sum(_draws(node.target) for node in graph.nodes) > 1):
            reorder(graph)

    post_grad.reorder_for_locality = reorder_without_random_ops


def _keep_order_in_schedule() -> None:
    """Make each random op depend on the previous random op, so that the scheduler does not exchange them."""
    from torch._inductor import config, scheduler
    from torch._inductor.dependencies import StarDep
    from torch._inductor.virtualized import V

    compute_dependencies = scheduler.Scheduler.compute_dependencies

    @functools.wraps(compute_dependencies)
    def with_random_ops_in_order(self: Any) -> None:
        random = [node for node in self.nodes if _draws(getattr(node.node, "op_overload", None))]
        for first, second in itertools.pairwise(random) if config.fallback_random else ():
            drawn = first.get_outputs()[0].get_name()
            if hasattr(V.graph, "additional_buffer_deps"):
                V.graph.additional_buffer_deps[second.get_name()].add(drawn)
            else:
                second.add_fake_dep(StarDep(drawn))
        compute_dependencies(self)

    scheduler.Scheduler.compute_dependencies = with_random_ops_in_order


def _draws(op: Any) -> bool:
    return isinstance(op, torch._ops.OpOverload) and torch.Tag.nondeterministic_seeded in op.tags
