"""Mark dimensions of tensors as dynamic.

This module uses these private torch names, checked with torch 2.6, 2.8, 2.11, 2.13 and 2.15:
``torch._dynamo.mark_dynamic``, ``torch._dynamo.decorators.mark_unbacked`` and
``torch._dynamo.config.automatic_dynamic_shapes``; the tensor attributes ``_dynamo_dynamic_indices`` and
``_dynamo_static_indices``, in which dynamo stores the marked dimensions; the logger ``torch._guards``, to which dynamo
logs errors.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Iterator
from contextlib import contextmanager

import torch
import torch._dynamo

from ..findings import CompileUsageError


def sizes_become_dynamic() -> bool:
    """Return whether torch makes a dimension dynamic when its size changes for the first time."""
    return bool(torch._dynamo.config.automatic_dynamic_shapes)


def mark_unbacked_dim(tensor: torch.Tensor, dim: int, name: str, shared: bool) -> None:
    """Mark one dimension as unbacked, so that no graph may depend on its size, not even on whether the size is 0 or 1.

    If ``shared`` is true, all dimensions with the same ``name`` share one size.

    Raises:
        CompileUsageError: If this torch version does not support shared sizes.
    """
    from torch._dynamo.decorators import mark_unbacked

    if not shared:
        mark_unbacked(tensor, dim)
    elif "shape_id" in inspect.signature(mark_unbacked).parameters:
        mark_unbacked(tensor, dim, shape_id=name)
    else:
        raise CompileUsageError(
            f"dynamic_dims: two unbacked dimensions share the name {name!r}, but torch {torch.__version__} does not "
            "support shared sizes (requires torch 2.11 or newer)"
        )


def mark_dynamic_dim(tensor: torch.Tensor, dim: int, bounds: tuple[int, int] | None = None) -> None:
    """Mark one dimension as dynamic, optionally within ``bounds`` (minimum and maximum size)."""
    if bounds is None:
        torch._dynamo.mark_dynamic(tensor, dim)
    else:
        torch._dynamo.mark_dynamic(tensor, dim, min=bounds[0], max=bounds[1])


def marked_dims(tensor: torch.Tensor) -> set[int]:
    """Return the dimensions of a tensor that are marked as dynamic."""
    return set(getattr(tensor, "_dynamo_dynamic_indices", ()))


def mark_statements(tensor: torch.Tensor, name: str) -> list[str]:
    """Return the statements that copy the dimension marks of ``tensor`` to the tensor in the variable ``name``."""
    return [
        f"torch._dynamo.mark_{kind}({name}, {dim})"
        for kind in ("dynamic", "static")
        for dim in sorted(getattr(tensor, f"_dynamo_{kind}_indices", ()))
    ]


@contextmanager
def without_guard_errors() -> Iterator[None]:
    """Suppress the traceback that torch logs if code specializes a dynamic dimension. This context manager is used
    while the plugin tries to mark dimensions that the user has not marked.
    """
    logger = logging.getLogger("torch._guards")
    before, logger.disabled = logger.disabled, True
    try:
        yield
    finally:
        logger.disabled = before
