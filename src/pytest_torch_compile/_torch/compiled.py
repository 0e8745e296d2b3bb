"""Handle targets that are already compiled, and the attributes that dynamo sets on them. This module uses the private
torch names ``torch._dynamo.eval_frame.OptimizedModule``, ``_torchdynamo_orig_callable`` and ``_torchdynamo_disable``.

These private names were checked with torch 2.6, 2.8, 2.11, 2.13 and 2.15.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FunctionType, MethodType
from typing import Any

import torch

# Prefixes of attributes that dynamo sets on functions and objects. These attributes are not user state. torch 2.15
# leaves ``fake_device`` on a parameter whose ``.data`` was assigned. ``mark_dynamic`` sets the last two.
DYNAMOS_OWN = ("_torchdynamo", "_dynamo", "fake_device", "_specialize_on", "_has_dynamo_dim_marking")


def uncompiled(target: Any) -> Any:
    """If ``target`` is a result of ``torch.compile``, return the callable that was compiled; otherwise, return
    ``target``.
    """
    if "torch._dynamo" not in sys.modules:  # without dynamo, nothing has been compiled
        return target
    from torch._dynamo.eval_frame import OptimizedModule

    if issubclass(type(target), OptimizedModule):
        return uncompiled(target._orig_mod)
    if type(target) is MethodType:  # a method that a class decorates with torch.compile
        function = uncompiled(target.__func__)
        return target if function is target.__func__ else MethodType(function, target.__self__)
    # Other objects may pass on the attributes of a compiled function that they call, so ``getattr`` is not used.
    marks = vars(target) if type(target) is FunctionType else {}
    original = marks.get("_torchdynamo_orig_callable")
    # Functions that are marked by torch.compiler.disable have this attribute, too.
    return target if original is None or marks.get("_torchdynamo_disable", False) else uncompiled(original)


def run_eagerly(target: Any) -> Callable[..., Any]:
    """Wrap the target so that the whole target runs eagerly, even if it compiles parts of itself."""

    def run(*args: Any, **kwargs: Any) -> Any:
        with torch.compiler.set_stance("force_eager"):
            return target(*args, **kwargs)

    return run
