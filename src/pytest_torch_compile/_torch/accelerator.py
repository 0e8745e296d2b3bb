"""The accelerator of this machine, through ``torch.accelerator`` and ``torch.get_device_module``. No private names.

ROCm uses ``torch.cuda``. Tested on CUDA only, not on ROCm, XPU and others.
"""

from __future__ import annotations

from typing import Any

import torch


def accelerator() -> Any | None:
    """``torch.cuda``, ``torch.xpu`` or a similar module, if there is a device; does not initialise it."""
    try:
        device = torch.accelerator.current_accelerator()
    except RuntimeError:  # torch 2.6 without a device
        return None
    module: Any = torch.get_device_module(device) if device is not None else None
    return module if module is not None and _answer(module, "is_available") else None


def accelerator_in_use() -> Any | None:
    """The module, if the device is initialised."""
    module = accelerator()
    return module if module is not None and _answer(module, "is_initialized") else None


def kind_of(module: Any) -> str:
    """The device type in torch: ``cuda``, ``xpu``."""
    return str(module.__name__).rsplit(".", 1)[-1]


def _answer(module: Any, question: str) -> bool:
    return bool(getattr(module, question, bool)())
