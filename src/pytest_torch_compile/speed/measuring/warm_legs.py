"""Build the eager and the compiled version (the legs) of a target, and call each of them until it is warm."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from ..._torch.trace import TraceObserver
from ..._torch.trace_log import not_captured
from ..._torch.warning_filters import calm
from ...legs.calls import Call
from ...legs.compiling import Compiling
from ...legs.targets import DynamicDims, argument_names, mark_dynamic
from . import memory, timing
from .copied_target import copied
from .workload import workload


@dataclass(frozen=True)
class Measurable:
    """A target, the call to measure, and what the call trains: see ``Bench``."""

    target: Any
    call: Call
    train: bool | Callable[[Any], Any] = False
    optimizer: Callable[[Iterable[Any]], Any] | None = None
    dynamic_dims: DynamicDims | None = None

    def copy(self, compiling: Compiling | None) -> timing.Run:
        """Copy the target and the inputs, and return a function that runs this copy once. If ``compiling`` is None, the
        copy runs eagerly.
        """
        target, call = copied(self.target, self.call)
        if compiling and self.dynamic_dims:
            mark_dynamic(call, self.dynamic_dims, argument_names(self.target))
        return workload(target, call.args, call.kwargs, self.train, self.optimizer, compiling)


@dataclass(frozen=True)
class WarmLeg:
    """One version of the target, eager or compiled, after its warm-up.

    ``run`` performs one call, and ``calls`` is the number of calls in a timed block. ``cold_start`` is the time of the
    warm-up calls, minus the time that the same number of warm calls takes, in seconds. ``memory`` is the peak memory in
    bytes, or 0 on devices other than CUDA.
    """

    run: timing.Run
    calls: int = 1
    cold_start: float = 0.0
    memory: int = 0


def warm_legs(
    measurable: Measurable, compiling: Compiling, timer: timing.Timer
) -> tuple[dict[str, WarmLeg], TraceObserver]:
    """Return the legs by name, ``eager`` and ``compiled``, and the observer of the compiled leg."""
    with calm():
        with not_captured():  # so that the trace does not slow down a target that calls torch.compile itself
            eager = _warm(measurable, None, timer)
        with TraceObserver() as observer:
            compiled = _warm(measurable, compiling, timer)
    return {"eager": eager, "compiled": compiled}, observer


def _warm(measurable: Measurable, compiling: Compiling | None, timer: timing.Timer) -> WarmLeg:
    if timer.cuda:
        memory.free_leftovers()
    before = memory.bytes_in_use() if timer.cuda else 0
    run = measurable.copy(compiling)
    cold_start, steady = timing.warm_up(run, timer)
    used = 0
    if timer.cuda:
        memory.free_leftovers()
        run()
        used = memory.bytes_in_use() - before + memory.transient_memory(run)
    return WarmLeg(run, timing.calls_per_block(steady), cold_start, used)
