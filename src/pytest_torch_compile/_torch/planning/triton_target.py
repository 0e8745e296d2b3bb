"""Simulate the GPU for Triton, with a driver object that only returns properties of the GPU.

This module replaces:

- Triton's active driver, from which Inductor reads the target when it writes the header of a kernel;
- ``torch._inductor.runtime.triton_helpers.set_driver_to_gpu``, which each kernel calls to load the real driver.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from ...plan.cards import Card


def put_target(card: Card) -> None:
    """Make Triton compile for the GPU."""
    from torch._inductor.runtime import triton_helpers
    from triton.backends.compiler import GPUTarget
    from triton.runtime import driver

    major, minor = card.capability
    target = GPUTarget("cuda", 10 * major + minor, 32)

    class Driver:
        def get_current_target(self) -> Any:
            return target

        def get_current_device(self) -> int:
            return 0

        def get_active_torch_device(self) -> torch.device:
            return torch.device("cuda", 0)

        def get_device_capability(self, device: int = 0) -> tuple[int, int]:
            return card.capability

    driver.set_active(Driver())
    helpers: Any = triton_helpers
    helpers.set_driver_to_gpu = lambda: None
