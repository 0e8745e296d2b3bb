"""The library and the layout of a convolution, which C++ decides from what cuDNN says of the device.

Replaces ``torch._C._select_conv_backend`` and ``torch._C._conv_determine_backend_memory_format`` for tensors on CUDA,
by cuDNN and its rule: channels last if the input or the weight has that layout. Recorded on an H200 with torch 2.11.
"""

from __future__ import annotations

from typing import Any

import torch

_LAYOUTS = {4: torch.channels_last, 5: torch.channels_last_3d}


def put_convolutions() -> None:
    """Decide convolutions on CUDA as cuDNN does."""
    core: Any = torch._C
    select, layout = core._select_conv_backend, core._conv_determine_backend_memory_format

    def select_on_card(*args: Any, **kwargs: Any) -> Any:
        tensor = kwargs["input"] if "input" in kwargs else args[0]
        return core._ConvBackend.Cudnn if tensor.device.type == "cuda" else select(*args, **kwargs)

    def layout_on_card(tensor: torch.Tensor, weight: torch.Tensor, backend: Any) -> Any:
        if tensor.device.type != "cuda":
            return layout(tensor, weight, backend)
        last = _LAYOUTS.get(tensor.ndim)
        return last if last and (_is(last, tensor) or _is(last, weight)) else torch.contiguous_format

    core._select_conv_backend = select_on_card
    core._conv_determine_backend_memory_format = layout_on_card


def _is(layout: torch.memory_format, tensor: torch.Tensor) -> bool:
    return tensor.is_contiguous(memory_format=layout) and not tensor.is_contiguous()
