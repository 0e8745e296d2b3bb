"""What torch makes tensors with where nobody says it: the default dtype and the default device.

Private name used: ``torch._GLOBAL_DEVICE_CONTEXT``, read on torch 2.6, 2.8, 2.11, 2.13 and 2.15. The public
``torch.get_default_device`` makes a tensor to find out its index, which wakes up CUDA; it says "cpu" where none is set.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class Defaults:
    """The dtype of floating tensors, and the device that ``torch.set_default_device`` was given, None for none."""

    dtype: torch.dtype
    device: torch.device | None


def defaults() -> Defaults:
    """The current ones."""
    context = getattr(torch._GLOBAL_DEVICE_CONTEXT, "device_context", None)
    return Defaults(torch.get_default_dtype(), None if context is None else context.device)


def set_defaults(wanted: Defaults) -> None:
    """Set them; one that has its value already is left alone, as each change costs dynamo a guard."""
    current = defaults()
    if current.dtype != wanted.dtype:
        torch.set_default_dtype(wanted.dtype)
    if current.device != wanted.device:
        torch.set_default_device(wanted.device)
        if wanted.device is None:  # as it is before the first; torch 2.6 cannot read the None that is left
            del torch._GLOBAL_DEVICE_CONTEXT.device_context


@contextmanager
def kept_defaults() -> Iterator[None]:
    """Put back after the body the defaults from before it."""
    before = defaults()
    try:
        yield
    finally:
        set_defaults(before)
