"""Choose the library and the memory format for a convolution. In torch, C++ code makes these choices based on
information from cuDNN about the device.

This module replaces ``torch._C._select_conv_backend`` and ``torch._C._conv_determine_backend_memory_format``. For CUDA
tensors, the replacements select cuDNN and follow cuDNN's rule: the memory format is channels last if the input or the
weight is channels last, according to ``suggest_memory_format`` of ``torch._prims_common``. If this rule was not
verified for the GPU and torch version, the plan lists the rule as an assumption.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch._prims_common import suggest_memory_format

from .recorded import not_recorded

if TYPE_CHECKING:
    from ...plan.cards import Card


def put_convolutions(card: Card, assume: Callable[[str], None]) -> None:
    """Make torch choose the same library and memory format for CUDA convolutions as on the GPU. If the rule was not
    verified for the GPU and torch version, ``assume`` is called with a description of the rule.
    """
    core: Any = torch._C
    select, layout = core._select_conv_backend, core._conv_determine_backend_memory_format
    unsure = not_recorded(card)

    def select_on_card(*args: Any, **kwargs: Any) -> Any:
        tensor = kwargs["input"] if "input" in kwargs else args[0]
        return core._ConvBackend.Cudnn if tensor.device.type == "cuda" else select(*args, **kwargs)

    def layout_on_card(tensor: torch.Tensor, weight: torch.Tensor, backend: Any) -> Any:
        if tensor.device.type != "cuda":
            return layout(tensor, weight, backend)
        if unsure:
            assume(f"convolutions use cuDNN, and channels last if the input or weight is channels last; {unsure}")
        layouts = (suggest_memory_format(tensor), suggest_memory_format(weight))
        return next((one for one in layouts if one is not torch.contiguous_format), torch.contiguous_format)

    core._select_conv_backend = select_on_card
    core._conv_determine_backend_memory_format = layout_on_card
