"""Time several functions in interleaved rounds, with CUDA events on a GPU, and with the host clock on other devices."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from statistics import median
from time import perf_counter

import torch

from ..deciding.statistics import half_width, log_ratios
from .cores import own_cores

Run = Callable[[], object]
Rounds = Mapping[str, list[tuple[float, float]]]
BLOCK_SECONDS = 0.008
MIN_ROUNDS = 12


class Timer:
    """A timer for blocks of calls, with CUDA events on a GPU, and with the host clock on other devices."""

    def __init__(self, device: torch.device) -> None:
        self.cuda = device.type == "cuda"
        if self.cuda:
            self._began, self._ended = (torch.cuda.Event(enable_timing=True) for _ in range(2))

    def block(self, run: Run, calls: int) -> tuple[float, float]:
        """Run a block of calls. Return the wall time per call, and the host time per call until the block's final call
        is enqueued, both in seconds.
        """
        self.synchronize()
        if self.cuda:
            self._began.record()
        start = perf_counter()
        for _ in range(calls):
            run()
        host = (perf_counter() - start) / calls
        if not self.cuda:
            return host, host
        self._ended.record()
        self._ended.synchronize()
        return self._began.elapsed_time(self._ended) / 1e3 / calls, host

    def synchronize(self) -> None:
        """Wait until the device is idle."""
        if self.cuda:
            torch.cuda.synchronize()


def warm_up(run: Run, timer: Timer, *, min_calls: int = 8, seconds: float = 1.0) -> tuple[float, float]:
    """Call ``run`` until the time per call is steady, or for about ``seconds`` after the first call. Return the cold
    start (the total time of these calls, minus the steady time of the same number of calls) and the steady time per
    call, both in seconds.
    """
    times: list[float] = []
    while True:
        start = perf_counter()
        run()
        timer.synchronize()
        times.append(perf_counter() - start)
        if len(times) < min_calls:
            continue
        if median(times[-3:]) >= 0.9 * median(times[-6:-3]) or sum(times[1:]) > seconds:
            steady = min(times[-3:])
            return max(0.0, sum(times) - steady * len(times)), steady


@contextmanager
def quiet_host() -> Iterator[None]:
    """Inside the ``with`` block, turn off garbage collection, and keep threads on the same few cores."""
    enabled, frozen = gc.isenabled(), gc.get_freeze_count() > 0
    gc.collect()
    if not frozen:
        gc.freeze()
    gc.disable()
    try:
        with own_cores():
            yield
    finally:
        if not frozen:  # otherwise, this would also unfreeze the caller's objects
            gc.unfreeze()
        if enabled:
            gc.enable()


def calls_per_block(steady: float) -> int:
    """Return the number of calls to time as one block if each call takes ``steady`` seconds."""
    return max(1, min(2000, round(BLOCK_SECONDS / max(steady, 1e-7))))


def interleave(
    legs: Mapping[str, Run], calls: Mapping[str, int], timer: Timer, *, seconds: float, precision: float
) -> dict[str, list[tuple[float, float]]]:
    """Time the functions in ``legs`` in rounds. A round times one block of calls of each function, and the next round
    reverses the order.

    The measurement stops after ``seconds``. It stops earlier if the ratio of each function's time to the first
    function's time is precise enough: half the width of the ratio's 95% confidence interval is at most ``precision``.
    """
    names = list(legs)
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in names}
    deadline = perf_counter() + seconds
    while True:
        for name in names:
            times[name].append(timer.block(legs[name], calls[name]))
        names.reverse()
        rounds = len(times[names[0]])
        if rounds >= 3 and perf_counter() > deadline:
            return times
        if rounds >= MIN_ROUNDS and rounds % 4 == 0:  # computing an interval takes time away from the rounds
            reference, *others = ([wall for wall, _ in leg] for leg in times.values())
            if all(half_width(log_ratios(reference, other)) <= precision for other in others):
                return times
