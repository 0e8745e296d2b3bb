"""The functions that each rank runs in these tests."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from pytest_torch_compile import check_compile, compile_guard, on_parts

from .._ranks import (
    NotingBackend,
    device,
    feed_forward_and_batch,
    gathered,
    mesh_of_all,
    net_and_batch,
    part_of,
    shard,
    split,
)


def ddp(module: nn.Module) -> DistributedDataParallel:
    """The module under DDP, with the smallest buckets that the bucket-splitting optimizer accepts."""
    on_cuda = device().type == "cuda"
    return DistributedDataParallel(module, device_ids=[device().index] if on_cuda else None, bucket_cap_mb=1)


def in_order(order: str, compile: Callable[[nn.Module], nn.Module]) -> Callable[[nn.Module], nn.Module]:
    """Either ``compile(DDP(m))`` or ``DDP(compile(m))``."""
    return (lambda m: compile(ddp(m))) if order == "compile(DDP)" else (lambda m: ddp(compile(m)))


def trained(order: str, mode: str, backend: str | None = None, **budget: Any) -> dict[str, int]:
    """Compare two steps of a data-parallel model with eager in one process; returns the compiled graphs."""
    noting = NotingBackend()

    def wrap(module: nn.Module) -> nn.Module:
        torch._dynamo.config.optimize_ddp = mode
        return in_order(order, lambda m: torch.compile(m, backend=backend or noting))(module)

    return _two_steps(wrap, noting, budget)


def trained_by_python_reducer(mode: str) -> dict[str, Any]:
    """Two steps with compiled autograd, whose graph contains the all-reduces; returns the largest gradient error."""
    from torch._dynamo import compiled_autograd

    noting, reducing = NotingBackend(), NotingBackend()
    model, batch = net_and_batch()
    expected = gradients_of_one_process(model, batch)
    before = torch._dynamo.config.optimize_ddp
    torch._dynamo.config.optimize_ddp = mode
    try:
        # in the mode "without compiled forward", only backward is captured
        parallel = torch.compile(ddp(model), backend=noting) if mode == "python_reducer" else ddp(model)
        with compile_guard(max_recompiles=0) as seen:
            for _ in range(2):
                parallel.zero_grad()
                loss = parallel(part_of(batch)).square().mean()
                with compiled_autograd._enable(torch.compile(backend=reducing)):
                    loss.backward()
    finally:
        torch._dynamo.config.optimize_ddp = before
    error = worst_error({name: parameter.grad for name, parameter in gathered(parallel).items()}, expected)
    return {"error": error, "graphs": len(seen.graphs), "collectives": reducing.forward}


def gradients_of_one_process(model: nn.Module, batch: torch.Tensor) -> dict[str, torch.Tensor]:
    """The gradients of the mean square over the whole batch. The model's own gradients are removed afterwards."""
    model(batch).square().mean().backward()
    gradients = {name: parameter.grad.clone() for name, parameter in model.named_parameters()}
    model.zero_grad()
    return gradients


def worst_error(gradients: dict[str, torch.Tensor], expected: dict[str, torch.Tensor]) -> float:
    """The largest difference, relative to the largest expected gradient of its parameter."""
    assert gradients.keys() == expected.keys()
    return max(float((gradients[n] - e).abs().max() / e.abs().max()) for n, e in expected.items())


def sharded(order: str, backend: str | None = None, **budget: Any) -> dict[str, int]:
    """Compare two steps of a model under ``fully_shard``, with each layer as a separate unit, with the same steps in
    one process."""
    noting = NotingBackend()

    def wrap(module: nn.Module) -> nn.Module:
        if order == "fully_shard(compile each layer)":
            for layer in module.layers:
                layer.compile(backend=backend or noting)
        shard(module, mesh_of_all())
        if order == "compile(fully_shard)":
            return torch.compile(module, backend=backend or noting)
        return module

    return _two_steps(wrap, noting, budget)


def tensor_parallel(backend: str | None = None, **budget: Any) -> dict[str, Any]:
    """Run two steps of a model whose layers are split over the ranks, with the whole batch on each rank. Returns its
    collectives."""
    noting = NotingBackend()

    def wrap(module: nn.Module) -> nn.Module:
        parallel = split(module, mesh_of_all())
        return torch.compile(parallel, backend=backend or noting, fullgraph=True)

    model, batch = feed_forward_and_batch()
    report = check_compile(
        model, batch, compile=wrap, train=True, optimizer=lambda p: torch.optim.SGD(p, lr=0.1), steps=2, **budget
    )
    return {"graphs": len(report.graphs), "forward": noting.forward, "backward": noting.backward}


def _two_steps(wrap: Callable[[nn.Module], nn.Module], noting: NotingBackend, budget: dict[str, Any]) -> dict[str, Any]:
    model, batch = net_and_batch()
    report = check_compile(
        model,
        batch,
        compile=on_parts(wrap),
        train=True,
        optimizer=lambda p: torch.optim.SGD(p, lr=0.1),
        steps=2,
        **budget,
    )
    return {"graphs": len(report.graphs), "breaks": len(report.graph_breaks), "compiled": noting.graphs}
