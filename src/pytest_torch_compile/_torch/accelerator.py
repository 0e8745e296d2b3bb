"""The accelerator of this machine, through ``torch.accelerator`` and ``torch.get_device_module``. No private names.

ROCm is ``torch.cuda`` to its users. CUDA was run; ROCm, XPU and others were not.
"""

from __future__ import annotations

from typing import Any

import torch


def accelerator() -> Any | None:
    """``torch.cuda``, ``torch.xpu`` or another such module, where there is a device; asking wakes none up."""
    try:
        device = torch.accelerator.current_accelerator()
    except RuntimeError:  # torch 2.6, where there is none
        return None
    module: Any = torch.get_device_module(device) if device is not None else None
    return module if module is not None and _answer(module, "is_available") else None


def accelerator_in_use() -> Any | None:
    """The same, once it is in use."""
    module = accelerator()
    return module if module is not None and _answer(module, "is_initialized") else None


def kind_of(module: Any) -> str:
    """What torch calls its devices: ``cuda``, ``xpu``."""
    return str(module.__name__).rsplit(".", 1)[-1]


def _answer(module: Any, question: str) -> bool:
    return bool(getattr(module, question, bool)())
