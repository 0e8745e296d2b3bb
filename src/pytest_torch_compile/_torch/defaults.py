"""The default dtype and device of new tensors.

This module uses the private torch name ``torch._GLOBAL_DEVICE_CONTEXT``, checked with torch 2.6, 2.8, 2.11, 2.13 and
2.15. The public function ``torch.get_default_device`` is unsuitable: it creates a tensor to determine the device index,
which initializes CUDA, and it returns "cpu" if no device is set.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class Defaults:
    """The default floating-point dtype, and the device set by ``torch.set_default_device`` (None if unset)."""

    dtype: torch.dtype
    device: torch.device | None


def defaults() -> Defaults:
    """Return the current defaults."""
    context = getattr(torch._GLOBAL_DEVICE_CONTEXT, "device_context", None)
    return Defaults(torch.get_default_dtype(), None if context is None else context.device)


def set_defaults(wanted: Defaults) -> None:
    """Set the defaults. A default that already has the wanted value is not set again, because setting a default makes
    one of dynamo's guards fail.
    """
    current = defaults()
    if current.dtype != wanted.dtype:
        torch.set_default_dtype(wanted.dtype)
    if current.device != wanted.device:
        torch.set_default_device(wanted.device)
        if wanted.device is None:  # the initial state; torch 2.6 fails if this attribute is None
            del torch._GLOBAL_DEVICE_CONTEXT.device_context


@contextmanager
def kept_defaults() -> Iterator[None]:
    """Restore the defaults after the ``with`` block."""
    before = defaults()
    try:
        yield
    finally:
        set_defaults(before)
