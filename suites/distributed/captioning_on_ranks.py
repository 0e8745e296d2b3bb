"""The functions that each rank runs with the captioner."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from .._ranks import NotingBackend, Parallel, device, gathered, sgd, train_beside_one_process
from ..captioning.models import captions, loss_of, tiny
from .on_ranks import in_order


def captioner_and_batch() -> tuple[nn.Module, dict[str, torch.Tensor]]:
    """The tiny captioner and captions of one length, equal on every rank. With one length, the mean over ranks equals
    the mean over the batch."""
    torch.manual_seed(0)
    batch = captions([12] * 8)
    return tiny().to(device()), {name: tensor.to(device()) for name, tensor in batch.items()}


def trained(order: str, mode: str, backend: str | None = None, **budget: Any) -> dict[str, Any]:
    """Compare two steps of the captioner under DDP with eager in one process."""
    noting = NotingBackend()
    before = torch._dynamo.config.optimize_ddp

    def setup(model: nn.Module) -> Parallel:
        torch._dynamo.config.optimize_ddp = mode
        parallel = in_order(order, lambda m: torch.compile(m, backend=backend or noting))(model)
        return Parallel(parallel, sgd(model), torch.Tensor.backward, lambda: gathered(model))

    try:
        found = train_beside_one_process(captioner_and_batch, setup, loss_of, **budget)
    finally:
        torch._dynamo.config.optimize_ddp = before
    return {**found, "compiled": noting.graphs}
