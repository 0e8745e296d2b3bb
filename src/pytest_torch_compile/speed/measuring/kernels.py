"""Device time and kernels per call, from the profiler's kernel durations."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from statistics import median

import torch
from torch.autograd import DeviceType
from torch.profiler import ProfilerActivity, profile

Run = Callable[[], object]


@cache
def start_profiler() -> None:
    """Profile once, so that every later timing in this process has the profiler's hooks installed alike."""
    device_times(lambda: torch.zeros(8, device="cuda").add_(1), calls=2)


def device_times(run: Run, calls: int) -> tuple[list[float], int]:
    """Seconds of device time of each of ``calls`` calls, and the kernels (copies and fills included) per call."""
    return split_by_call(durations(run, calls), calls)


def durations(run: Run, calls: int) -> list[float]:
    """Microseconds of each kernel of ``calls`` calls, in the order in which they began."""
    torch.cuda.synchronize()
    with profile(activities=[ProfilerActivity.CUDA]) as recorded:
        for _ in range(calls):
            run()
        torch.cuda.synchronize()
    events = [e for e in recorded.events() if e.device_type == DeviceType.CUDA]
    return [took for _, took in sorted((e.time_range.start, e.time_range.elapsed_us()) for e in events)]


def split_by_call(took: list[float], calls: int) -> tuple[list[float], int]:
    """Microseconds of consecutive kernels as seconds per call; spread evenly when the calls differ in kernels."""
    per_call, rest = divmod(len(took), calls)
    if rest or not per_call:
        return [sum(took) / calls / 1e6] * calls, round(len(took) / calls)
    return [sum(took[i * per_call : (i + 1) * per_call]) / 1e6 for i in range(calls)], per_call


def interleaved_device_times(
    legs: Mapping[str, Run], calls: Mapping[str, int], sessions: int
) -> tuple[dict[str, list[float]], dict[str, int]]:
    """For each leg the median device seconds per call of each profiler session, and its kernels per call."""
    names = list(legs)
    seconds: dict[str, list[float]] = {name: [] for name in names}
    kernels: dict[str, int] = {}
    for _ in range(sessions):
        for name in names:
            times, kernels[name] = device_times(legs[name], calls[name])
            seconds[name].append(median(times[1:] or times))
        names.reverse()
    return seconds, kernels
