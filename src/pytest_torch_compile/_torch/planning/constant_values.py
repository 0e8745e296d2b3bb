"""Compute constants on the CPU.

The value of a constant does not depend on the device, but torch computes constants with real operators on the graph's
device. This module replaces two parts of torch with functions that compute constants on the CPU:

- Inductor's joint-graph pass folds constants by running operators such as ``aten.full`` (in ``run_node`` and
  ``__init__`` of ``UniformValueConstantFolder``).
- The tracer computes the values of small constants, such as ``torch.tensor(2).to(x.device)``, while fake tensors are
  turned off with ``unset_fake_temporarily``.

This module uses these private torch names, checked with torch 2.11, 2.13 and 2.15: ``UniformValueConstantFolder`` in
the module ``torch._inductor.fx_passes.joint_graph``, and ``unset_fake_temporarily`` in
``torch.fx.experimental.proxy_tensor``.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map_only


class _OnCPU(TorchDispatchMode):
    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        args, kwargs = tree_map_only(
            torch.device,
            lambda device: torch.device("cpu") if device.type == "cuda" else device,
            (args, dict(kwargs or {})),
        )
        return function(*args, **kwargs)


def compute_constants_on_cpu() -> None:
    """Make torch compute constants on the CPU for the rest of the process."""
    from torch._inductor.fx_passes.joint_graph import UniformValueConstantFolder as Folder
    from torch.fx.experimental import proxy_tensor

    run_node, init = Folder.run_node, Folder.__init__

    def init_on_cpu(self: Any, *args: Any, **kwargs: Any) -> None:
        with _OnCPU():
            init(self, *args, **kwargs)

    def run_node_on_cpu(self: Any, node: Any) -> Any:
        with _OnCPU():
            return run_node(self, node)

    Folder.run_node, Folder.__init__ = run_node_on_cpu, init_on_cpu

    tracer: Any = proxy_tensor
    unset = tracer.unset_fake_temporarily

    @contextmanager
    def unset_on_cpu() -> Iterator[Any]:
        with unset() as mode, _OnCPU():
            yield mode

    tracer.unset_fake_temporarily = unset_on_cpu
