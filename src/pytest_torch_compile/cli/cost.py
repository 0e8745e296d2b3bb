"""Measure a model's compile time, and the durations of an eager call and of a compiled call. The measured times do not
affect the result of the check.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from statistics import median, quantiles
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..legs.calls import Call
    from ..speed.sample import Paired, SpeedSample

SECONDS = 4.0
ENOUGH_ROUNDS = 6


def measured(model: Any, call: Call, options: Mapping[str, Any]) -> SpeedSample:
    """Measure one call, alternating between eager and compiled runs. The compile cache is empty at the start."""
    from ..cache.folder import empty_cache
    from ..speed.measuring.bench import measure_compile

    with empty_cache():
        return measure_compile(model, *call.args, kwargs=call.kwargs, seconds=SECONDS, raw=True, **options)


def cost_lines(sample: SpeedSample, backend: str) -> list[str]:
    """Return lines with the measured figures."""
    seconds, wall = sample.cold_start[1], sample.wall
    runs = (
        f"{sample.what} with the inputs of the first call, median of {sample.rounds} rounds in one process, backend "
        f"{backend}"
    )
    lines = [f"compilation and warm-up: {seconds:.1f} s with an empty compile cache"]
    for name in ("eager", "compiled"):
        low, _, high = map(_time, quantiles(sample.raw["wall"][name], n=4))
        middle = _time(median(sample.raw["wall"][name]))
        lines.append(f"{name}: {middle} per call (middle 50% of the rounds: {low} to {high})")
    return [
        *lines,
        *_paid_back(seconds, wall, sample.rounds),
        f"measured on {_where(sample.environment['device'])}: {runs}. These figures do not affect the result",
    ]


def _paid_back(seconds: float, wall: Paired, rounds: int) -> list[str]:
    """Return lines with the speedup and the number of calls after which compilation pays off. If a figure cannot be
    determined, or compilation does not pay off, a line states the reason.
    """
    times = f"compiled code is {math.exp(-wall.log_ratio):.2f} times as fast as eager"
    if rounds < ENOUGH_ROUNDS:
        return [f"{times}, but {rounds} rounds are too few to estimate the error"]
    low, high = (math.exp(-wall.log_ratio + sign * wall.half_width) for sign in (-1, 1))
    lines = [f"{times} (95% confidence interval {low:.2f} to {high:.2f})"]
    if low > 1:
        calls = math.ceil(seconds / (wall.eager * (1 - math.exp(wall.log_ratio))))
        return [*lines, f"compilation pays off after about {calls:,} calls"]
    slower = (
        "compiled code is slower than eager here"
        if high < 1
        else ("the difference is within the spread of the measurements")
    )
    return [*lines, f"compilation does not pay off: {slower}"]


def _where(device: str) -> str:
    import torch

    if device != "cpu":
        return device
    return (
        f"a CPU with {torch.get_num_threads()} threads (other processes may slow it down, and figures on a GPU would "
        "differ)"
    )


def _time(seconds: float) -> str:
    """Format a time, such as ``1.23 ms`` or ``45.6 us``."""
    unit, factor = ("s", 1.0) if seconds >= 1 else ("ms", 1e3) if seconds >= 1e-3 else ("us", 1e6)
    return f"{seconds * factor:.3g} {unit}"
