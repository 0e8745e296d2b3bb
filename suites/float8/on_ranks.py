"""The functions that each rank runs in these tests."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torchao.float8 import Float8LinearConfig, convert_to_float8_training

from .._ranks import (
    NotingBackend,
    Parallel,
    device,
    gathered,
    mesh_of_all,
    net_and_batch,
    sgd,
    shard,
    train_beside_one_process,
)

WIDTH = 256


def float8(module: nn.Module) -> nn.Module:
    """The module with float8 products in its blocks, which are emulated on devices without float8 support (before SM89,
    and CPUs)."""
    config = Float8LinearConfig(emulate=not has_float8(next(module.parameters()).device))
    return convert_to_float8_training(module, config=config, module_filter_fn=lambda m, name: "layers" in name)


def has_float8(where: torch.device) -> bool:
    """Whether a device supports float8 products in hardware."""
    return where.type == "cuda" and torch.cuda.get_device_capability(where) >= (8, 9)


def in_order(order: str, backend: str | None = None, **budget: Any) -> dict[str, Any]:
    """Compare two steps of ``compile(distributed(quantized(model)))`` with one process without float8."""
    noting = NotingBackend()

    def setup(model: nn.Module) -> Parallel:
        parallel = torch.compile(_distributed(float8(model), order), backend=backend or noting)
        return Parallel(parallel, sgd(parallel), torch.Tensor.backward, lambda: gathered(parallel))

    found = train_beside_one_process(lambda: net_and_batch(WIDTH, rows=32), setup, **budget)
    return {**found, "compiled": noting.graphs}


def _distributed(model: nn.Module, how: str) -> nn.Module:
    if how == "ddp":
        on_cuda = device().type == "cuda"
        return nn.parallel.DistributedDataParallel(model, device_ids=[device().index] if on_cuda else None)
    return shard(model, mesh_of_all())
