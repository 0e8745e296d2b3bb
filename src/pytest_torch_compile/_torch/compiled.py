"""Handle targets that are already compiled. This module uses the private torch names
``torch._dynamo.eval_frame.OptimizedModule`` and ``_torchdynamo_orig_callable``.

These private names were checked with torch 2.6, 2.8, 2.11, 2.13 and 2.15.
"""

from __future__ import annotations

from typing import Any

import torch
from torch._dynamo.eval_frame import OptimizedModule


def uncompiled(target: Any) -> Any:
    """If ``target`` is a result of ``torch.compile``, return the callable that was compiled; otherwise, return
    ``target``.
    """
    if isinstance(target, OptimizedModule):
        return uncompiled(target._orig_mod)
    original = getattr(target, "_torchdynamo_orig_callable", None)
    # Methods that are marked by torch.compiler.disable have this attribute, too, but are not results of torch.compile.
    if original is None or getattr(target, "_torchdynamo_disable", False):
        return target
    return uncompiled(original)


def rebind(module: torch.nn.Module) -> None:
    """Make the compiled submodules of a copied module run the copy's code. After ``deepcopy``, they would still run the
    original's compiled ``forward``.
    """
    for part in module.modules():
        if isinstance(part, OptimizedModule):
            part._initialize()
