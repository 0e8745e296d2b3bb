"""Access this machine's accelerator through ``torch.accelerator`` and ``torch.get_device_module``. This module uses no
private torch names.

ROCm devices are accessed through ``torch.cuda``. This module was tested only on CUDA devices, not on ROCm, XPU or other
devices.
"""

from __future__ import annotations

from typing import Any

import torch


def accelerator() -> Any | None:
    """Return the accelerator's device module (for example ``torch.cuda``), or None if this machine has no accelerator.
    This function does not initialize the accelerator.
    """
    try:
        device = torch.accelerator.current_accelerator()
    except RuntimeError:  # torch 2.6 raises it if there is no accelerator
        return None
    module: Any = torch.get_device_module(device) if device is not None else None
    return module if module is not None and _answer(module, "is_available") else None


def accelerator_in_use() -> Any | None:
    """Return the accelerator's device module, or None if there is no accelerator or it is not initialized."""
    module = accelerator()
    return module if module is not None and _answer(module, "is_initialized") else None


def kind_of(module: Any) -> str:
    """Return the device type of a device module, for example ``cuda`` for ``torch.cuda``."""
    return str(module.__name__).rsplit(".", 1)[-1]


def _answer(module: Any, question: str) -> bool:
    return bool(getattr(module, question, bool)())
