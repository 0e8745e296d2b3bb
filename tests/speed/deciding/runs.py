"""Made-up runs, each a compilation of its own, for the tests of what is decided from them."""

from __future__ import annotations

import math
from typing import Any

from pytest_torch_compile.speed.sample import Run, Times

# Log ratios as fresh compilations scatter.
NOISE = (0.0, 0.01, -0.01, 0.015, -0.015, 0.005, -0.005, 0.008, -0.008, 0.0)


def run(device: float = 0.0, wall: float = 0.0, host: float = 0.0, *, eager: float = 0.0, **more: Any) -> Run:
    """A compiled leg that is slower by these log ratios; it waits for its kernels, or with ``bound="host"`` for it."""
    bound = more.pop("bound", "device")
    on_device, on_host = (900e-6, 300e-6) if bound == "device" else (100e-6, 980e-6)

    def times(seconds: float, slower: float) -> Times:
        return Times(2 * seconds * math.exp(eager), seconds * math.exp(slower), slower - eager - math.log(2))

    return Run(times(1e-3, wall), times(on_host, host), times(on_device, device), **more)


def stored(count: int = 10, **more: Any) -> list[Run]:
    return [run(NOISE[n % 10], NOISE[n % 10], NOISE[n % 10], **more) for n in range(count)]


def slower(by: float, count: int = 8, **more: Any) -> list[Run]:
    """Compilations that are all slower by about this log ratio."""
    return [run(*[by + NOISE[n % 10] / 2] * 3, **more) for n in range(count)]
