"""Split a batch over the ranks, and compare the results with an eager run of the whole batch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import distributed

from .._torch.object_text import name_of


def on_parts(compile: Callable[[Any], Callable[..., Any]], dim: int = 0) -> Callable[[Any], Callable[..., Any]]:
    """Return a function to pass as ``compile`` to ``check_compile``. The compiled run then splits the batch over the
    ranks, and gathers the ranks' outputs.

    On each rank, the eager run of the check uses the whole batch. Data-parallel training averages the gradients of the
    parts. Therefore, on every rank, the outputs, the gradients and the parameters after optimizer steps must match the
    eager run.

    Args:
        compile: a function that creates the parallel, compiled target: ``lambda m:
            DistributedDataParallel(torch.compile(m))``.
        dim: the batch dimension of all tensor arguments and output tensors. The size of this dimension must be a
            multiple of the number of ranks. A tensor without this dimension is not split: every rank receives the whole
            tensor.
    """

    def on_its_part(target: Any) -> Callable[..., Any]:
        inner = compile(target)

        def call(*args: Any, **kwargs: Any) -> Any:
            args, kwargs = _mapped((args, kwargs), lambda tensor: part_of(tensor, dim))
            return _mapped(inner(*args, **kwargs), lambda tensor: _Gathered.apply(tensor, dim))

        return call

    on_its_part.__name__ = name_of(compile).rpartition(".")[2]
    return on_its_part


def part_of(batch: torch.Tensor, dim: int = 0) -> torch.Tensor:
    """Return the part of a tensor for this rank."""
    if batch.ndim <= dim:
        return batch
    ranks = distributed.get_world_size()
    if batch.shape[dim] % ranks:
        raise ValueError(
            f"a batch of {batch.shape[dim]} cannot be split into {ranks} equal parts: use a batch size that is a "
            f"multiple of {ranks}"
        )
    return batch.chunk(ranks, dim)[distributed.get_rank()]


class _Gathered(torch.autograd.Function):
    """An autograd function that concatenates the parts of all ranks. The backward pass returns this rank's part of the
    gradient, multiplied by the number of ranks to compensate for averaging over the ranks.
    """

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
    """Apply a function to each tensor in nested containers."""
    if isinstance(value, torch.Tensor):
        return change(value)
    if isinstance(value, dict):
        mapped = [(key, _mapped(item, change)) for key, item in value.items()]
        return type(value)(mapped) if type(value) is dict else type(value)(**dict(mapped))
    if isinstance(value, (list, tuple)):
        items = [_mapped(item, change) for item in value]
        return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
    return value
