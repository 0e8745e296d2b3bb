"""Each rank on its part of the batch, held to one process in eager on the whole batch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import distributed


def on_parts(compile: Callable[[Any], Callable[..., Any]], dim: int = 0) -> Callable[[Any], Callable[..., Any]]:
    """``compile=`` for ``check_compile`` on ranks: each rank runs its part of the batch, and the outputs are gathered.

    The check's eager leg is one process on the whole batch. Data-parallel training averages the gradients of the parts,
    so that outputs, gradients and parameters after steps have to be those of that one process, on every rank.

    Args:
        compile: makes the parallel and compiled target: ``lambda m: DistributedDataParallel(torch.compile(m))``.
        dim: the dimension of the batch, of every tensor argument and every tensor in the output. Its size has to be a
            multiple of the number of ranks. What has less dimensions is the same on every rank.
    """

    def on_its_part(target: Any) -> Callable[..., Any]:
        inner = compile(target)

        def call(*args: Any, **kwargs: Any) -> Any:
            args, kwargs = _mapped((args, kwargs), lambda tensor: part_of(tensor, dim))
            return _mapped(inner(*args, **kwargs), lambda tensor: _Gathered.apply(tensor, dim))

        return call

    on_its_part.__name__ = getattr(compile, "__name__", "own compile function")
    return on_its_part


def part_of(batch: torch.Tensor, dim: int = 0) -> torch.Tensor:
    """The part of this rank, of a tensor that every rank has whole."""
    if batch.ndim <= dim:
        return batch
    ranks = distributed.get_world_size()
    if batch.shape[dim] % ranks:
        raise ValueError(f"a batch of {batch.shape[dim]} has no {ranks} equal parts: give a multiple of {ranks}")
    return batch.chunk(ranks, dim)[distributed.get_rank()]


class _Gathered(torch.autograd.Function):
    """The parts of all ranks as one. Backward gives each rank its own part, scaled up as a mean over parts is."""

    @staticmethod
    def forward(ctx: Any, part: torch.Tensor, dim: int) -> torch.Tensor:
        ctx.dim = dim
        if part.ndim <= dim:
            return part.clone()
        parts = [torch.empty_like(part) for _ in range(distributed.get_world_size())]
        distributed.all_gather(parts, part.contiguous())
        return torch.cat(parts, dim)

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor, None]:
        return part_of(grad, ctx.dim) * (distributed.get_world_size() if grad.ndim > ctx.dim else 1), None


def _mapped(value: Any, change: Callable[[torch.Tensor], torch.Tensor]) -> Any:
    """Containers of tensors with each tensor changed."""
    if isinstance(value, torch.Tensor):
        return change(value)
    if isinstance(value, dict):
        mapped = [(key, _mapped(item, change)) for key, item in value.items()]
        return type(value)(mapped) if type(value) is dict else type(value)(**dict(mapped))
    if isinstance(value, (list, tuple)):
        items = [_mapped(item, change) for item in value]
        return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
    return value
