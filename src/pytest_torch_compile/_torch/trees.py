"""Map, flatten and rebuild nested containers, and recognize tensor subclasses that wrap other tensors.

This module uses ``torch.utils._pytree``, ``torch.utils._python_dispatch.is_traceable_wrapper_subclass`` and
``torch.distributed._functional_collectives.AsyncCollectiveTensor``. The names used here exist in torch 2.6 to 2.15.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

import torch
from torch.utils._python_dispatch import is_traceable_wrapper_subclass
from torch.utils._pytree import tree_flatten, tree_leaves, tree_map, tree_unflatten

__all__ = [
    "inner_tensors",
    "is_traceable_wrapper_subclass",
    "tree_flatten",
    "tree_leaves",
    "tree_map",
    "tree_unflatten",
    "waited",
    "with_inner_tensors",
]


def inner_tensors(wrapper: torch.Tensor) -> dict[str, torch.Tensor]:
    """Return the tensors that a wrapper subclass contains, by the names of their attributes."""
    names, _ = wrapper.__tensor_flatten__()
    # Other attributes, such as the device mesh of a DTensor, contain no values.
    inner = {name: getattr(wrapper, name) for name in names}
    return {name: value for name, value in inner.items() if isinstance(value, torch.Tensor)}


def with_inner_tensors(wrapper: torch.Tensor, change: Callable[[torch.Tensor], torch.Tensor]) -> torch.Tensor:
    """Return a wrapper of the same class and size, with ``change`` applied to each tensor that it contains."""
    wrapper = wrapper.detach()
    names, context = wrapper.__tensor_flatten__()
    inner = {name: getattr(wrapper, name) for name in names}
    inner |= {name: change(value) for name, value in inner.items() if isinstance(value, torch.Tensor)}
    made: torch.Tensor = type(wrapper).__tensor_unflatten__(inner, context, wrapper.size(), wrapper.stride())
    return made


def waited(tensor: torch.Tensor) -> torch.Tensor:
    """Return the result of a functional collective that may still be running, after it has finished. Return any other
    tensor unchanged. In eager, these collectives return an ``AsyncCollectiveTensor``; compiled code waits for them.
    """
    collectives = sys.modules.get("torch.distributed._functional_collectives")
    if collectives is None or not isinstance(tensor, collectives.AsyncCollectiveTensor):
        return tensor
    finished: torch.Tensor = tensor.trigger_wait()
    return finished.detach().requires_grad_() if tensor.requires_grad else finished
