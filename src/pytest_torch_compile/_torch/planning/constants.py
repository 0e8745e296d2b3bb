"""Run constant folding on the CPU.

Inductor's joint-graph pass folds constants by running operators such as ``aten.full`` on the graph's device. The value
of a constant does not depend on the device, so ``run_node`` and ``__init__`` of ``UniformValueConstantFolder`` are
replaced with functions that create tensors on the CPU.

Private name used, checked on torch 2.11, 2.13 and 2.15: ``UniformValueConstantFolder`` in the module
``torch._inductor.fx_passes.joint_graph``.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode


class _OnCPU(TorchDispatchMode):
    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        device = kwargs.get("device")
        if device is not None and torch.device(device).type == "cuda":
            kwargs["device"] = torch.device("cpu")
        return function(*args, **kwargs)


def fold_on_cpu() -> None:
    """Make torch fold constants on the CPU for the rest of the process."""
    from torch._inductor.fx_passes.joint_graph import UniformValueConstantFolder as Folder

    run_node, init = Folder.run_node, Folder.__init__

    def init_on_cpu(self: Any, *args: Any, **kwargs: Any) -> None:
        with _OnCPU():
            init(self, *args, **kwargs)

    def run_node_on_cpu(self: Any, node: Any) -> Any:
        with _OnCPU():
            return run_node(self, node)

    Folder.run_node, Folder.__init__ = run_node_on_cpu, init_on_cpu
