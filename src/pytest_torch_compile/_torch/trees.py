"""Map, flatten and rebuild nested containers, and recognize tensor subclasses that wrap other tensors.

This module uses ``torch.utils._pytree`` and ``torch.utils._python_dispatch.is_traceable_wrapper_subclass``. The names
used here exist in torch 2.11 and 2.15.
"""

from __future__ import annotations

from torch.utils._python_dispatch import is_traceable_wrapper_subclass
from torch.utils._pytree import tree_flatten, tree_leaves, tree_map, tree_unflatten

__all__ = ["is_traceable_wrapper_subclass", "tree_flatten", "tree_leaves", "tree_map", "tree_unflatten"]
