"""The speed of compiled real models, compared with eager and with the stored baseline. Requires a CUDA device."""

from __future__ import annotations

import os
from collections.abc import Callable
from time import perf_counter, sleep
from typing import Any

import pytest
import torch

from .cases import CASES

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="speed is gated on a CUDA device only"),
]
# SLOW_CASE=bert-forward-default:host:30 adds 30 microseconds to one compiled model, to demonstrate that the gate
# detects it, and SLOW_CASE=bert-forward-default:memory:10 makes it keep 10 MB more. With "wait" in place of "host", no
# count changes.
SLOW_CASE = os.environ.get("SLOW_CASE", "")  # several values are separated by commas


# The cases that compile longest come first, so that no case starts late on a machine with many workers.
LONGEST_FIRST = sorted(CASES, key=lambda name: (CASES[name].mode != "max-autotune", CASES[name].work == "forward"))


@pytest.mark.parametrize("name", LONGEST_FIRST)
def test_speed(name: str, compile_benchmark: Callable[..., Any]) -> None:
    module, inputs, options = CASES[name].build(torch.device("cuda"))
    slowdowns = dict(one.split(":", 1) for one in SLOW_CASE.split(",") if one)
    if slowdown := slowdowns.get(name):
        mode = options.pop("mode")
        options["compile"] = lambda target: slowed(torch.compile(target, mode=mode), slowdown)
    compile_benchmark(module, kwargs=inputs, **options)


def slowed(compiled: Callable[..., Any], slowdown: str) -> Callable[..., Any]:
    """The compiled model with additional device work (``kernel:MICROSECONDS``), Python work (``host:MICROSECONDS``),
    idle time (``wait:MICROSECONDS``) or memory (``memory:MB``)."""
    side, _, amount = slowdown.partition(":")
    if side == "memory":
        kept = torch.zeros(int(float(amount) * 1e6), dtype=torch.uint8, device="cuda")
        return lambda *args, **kwargs: compiled(*args, **kwargs) if len(kept) else None
    seconds = float(amount) * 1e-6
    # A device moves about 4 bytes per picosecond; the addition below reads and writes 4 bytes per element.
    buffer = torch.zeros(max(1, int(seconds * 4e12 / 8)) if side == "kernel" else 1, device="cuda")

    def run(*args: Any, **kwargs: Any) -> Any:
        end = perf_counter() + (seconds if side == "host" else 0)
        while perf_counter() < end:
            pass
        if side == "wait":
            sleep(seconds)
        if side == "kernel":
            buffer.add_(1.0)
        return compiled(*args, **kwargs)

    return run
