"""A captured graph run in fp64: what a change means, apart from all rounding."""

from __future__ import annotations

from typing import Any

import torch
from torch import fx
from torch.utils._pytree import tree_map

NARROW = (torch.float32, torch.float16, torch.bfloat16)


class Exact(fx.Interpreter):
    """Runs a graph in fp64 throughout; a conversion that is the change itself stays as it is."""

    def run_node(self, n: fx.Node) -> Any:
        return tree_map(_double, super().run_node(n))

    def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
        if not self.current_is_change:
            args, kwargs = (tree_map(_wide_dtype, part) for part in (args, kwargs))
        return super().call_function(target, args, kwargs)

    @property
    def current_is_change(self) -> bool:
        """Whether the node that is run was put in by a mutation that narrows a dtype."""
        return bool(self._node.meta.get("mutation"))

    def fetch_args_kwargs_from_env(self, n: fx.Node) -> Any:
        self._node = n
        return super().fetch_args_kwargs_from_env(n)


def _double(value: Any) -> Any:
    floating = isinstance(value, torch.Tensor) and value.is_floating_point()
    return value.double() if floating else value


def _wide_dtype(value: Any) -> Any:
    return torch.float64 if isinstance(value, torch.dtype) and value in NARROW else value
