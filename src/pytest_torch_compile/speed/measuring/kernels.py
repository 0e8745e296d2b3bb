"""Use the profiler to measure the device time per call, and to count the kernels and synchronizations per call."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from statistics import median

import torch
from torch.autograd import DeviceType
from torch.profiler import ProfilerActivity, profile

Run = Callable[[], object]
# Runtime functions in which the host waits for the device, and functions that launch a CUDA graph.
WAITS = {"cudaStreamSynchronize", "cudaDeviceSynchronize", "cudaEventSynchronize"}
WAITS |= {name.replace("cuda", "hip") for name in WAITS}
GRAPH_LAUNCHES = {"cudaGraphLaunch", "hipGraphLaunch"}


@dataclass(frozen=True)
class Profiled:
    """The results of one profiler session of ``calls`` calls. ``took`` contains the duration of each kernel in
    microseconds, in order of execution; ``collectives``, ``waits`` and ``graph_launches`` are counts for the whole
    session.
    """

    calls: int
    took: list[float]
    collectives: int = 0
    waits: int = 0
    graph_launches: int = 0

    @property
    def kernels(self) -> int:
        """The number of kernels per call, including copies and fills."""
        return round(len(self.took) / self.calls)

    def per_call(self, count: int) -> int:
        """Return ``count`` divided by the number of calls, rounded down. Rounding down excludes the profiler's own
        events, because there are fewer of them than calls.
        """
        return count // self.calls

    def seconds(self) -> list[float]:
        """Return the device time of each call. If the calls do not all run the same kernels, the total time is divided
        evenly among the calls.
        """
        kernels, rest = divmod(len(self.took), self.calls)
        if rest or not kernels:
            return [sum(self.took) / self.calls / 1e6] * self.calls
        return [sum(self.took[i * kernels : (i + 1) * kernels]) / 1e6 for i in range(self.calls)]


@cache
def start_profiler() -> None:
    """Profile once, so that the profiler's hooks are installed during all later measurements in this process."""
    profiled(lambda: torch.zeros(8, device="cuda").add_(1), calls=2)


def profiled(run: Run, calls: int) -> Profiled:
    """Run one profiler session of ``calls`` calls, and return its results."""
    torch.cuda.synchronize()
    with profile(activities=[ProfilerActivity.CUDA]) as recorded:
        for _ in range(calls):
            run()
        torch.cuda.synchronize()
    events = recorded.events()
    kernels = [event for event in events if event.device_type == DeviceType.CUDA]
    names = [event.name for event in events if event.device_type != DeviceType.CUDA]
    return Profiled(
        calls,
        [took for _, took in sorted((e.time_range.start, e.time_range.elapsed_us()) for e in kernels)],
        collectives=sum(event.name.startswith(("nccl", "rccl")) for event in kernels),
        waits=sum(name in WAITS for name in names),
        graph_launches=sum(name in GRAPH_LAUNCHES for name in names),
    )


def interleaved_sessions(
    legs: Mapping[str, Run], calls: Mapping[str, int], sessions: int
) -> tuple[dict[str, list[float]], dict[str, Profiled]]:
    """Run ``sessions`` profiler sessions for each function in ``legs``, alternating between the functions. Return two
    dicts, keyed by function name: the median device times per call in each session (in seconds), and the results of the
    last session.
    """
    names = list(legs)
    seconds: dict[str, list[float]] = {name: [] for name in names}
    last: dict[str, Profiled] = {}
    for _ in range(sessions):
        for name in names:
            last[name] = profiled(legs[name], calls[name])
            times = last[name].seconds()
            seconds[name].append(median(times[1:] or times))
        names.reverse()
    return seconds, last
