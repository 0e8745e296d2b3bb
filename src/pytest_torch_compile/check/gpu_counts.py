"""Count the kernels and synchronizations of a warm call on a CUDA device, and measure its peak memory. The caller
compares these values with a test's budget.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass

import torch

from .._torch.syncs import noting_syncs
from ..legs.calls import Call
from ..legs.compiling import Compiling
from ..legs.targets import argument_names, mark_dynamic
from ..legs.work import Work
from ..observation import Location
from ..speed.measuring import kernels, memory
from ..speed.measuring.copied_target import copied
from ..speed.measuring.kernels import Run
from ..speed.measuring.workload import workload

WARM_UPS = 3  # with CUDA graphs, the first call is a warm-up, the second is recorded, and the third is a replay
PROFILED = 4  # more than the number of the profiler's own events, so that ``per_call`` rounds their share down to 0


@dataclass(frozen=True)
class GpuCounts:
    """The counts for one warm call. For each synchronization, ``sync_lines`` contains the line of user code that caused
    the synchronization, or None if the line is unknown.
    """

    kernels: int
    memory: int
    syncs: int
    sync_lines: tuple[Location | None, ...]


def gpu_counts(work: Work, call: Call, compiling: Compiling | None) -> GpuCounts:
    """Run a call on copies of the target and the arguments until the call is warm, and then count its kernels, memory
    and synchronizations. If ``compiling`` is None, the call runs eagerly.
    """
    with ExitStack() as stack:
        if compiling is None:
            stack.enter_context(torch.compiler.set_stance("force_eager"))
        memory.free_leftovers()
        before = memory.bytes_in_use()
        run = _repeatable(work, call, compiling)
        for _ in range(WARM_UPS):
            run()
        memory.free_leftovers()
        run()
        used = memory.bytes_in_use() - before + memory.transient_memory(run)
        kernels.start_profiler()
        session = kernels.profiled(run, PROFILED)
        lines: list[Location | None] = []
        with noting_syncs(lines.append):
            run()
        waits = max(session.per_call(session.waits), len(lines))
        return GpuCounts(session.kernels, used, waits, tuple(lines))


def _repeatable(work: Work, call: Call, compiling: Compiling | None) -> Run:
    target, own = copied(work.target, call)
    for action in own.actions:
        action(target)
    if compiling is not None and work.dynamic_dims:
        mark_dynamic(own, work.dynamic_dims, argument_names(work.target), work.calls)
    if work.trains or work.optimizer is not None:
        step = workload(target, own.args, own.kwargs, work.train, work.optimizer, compiling)
    else:
        runner = compiling(target) if compiling is not None else target
        step = lambda: runner(*own.args, **own.kwargs)  # noqa: E731

    def run() -> None:
        if compiling is not None:
            torch.compiler.cudagraph_mark_step_begin()
        with ExitStack() as stack:
            for factory in own.contexts:
                stack.enter_context(factory())
            step()

    return run
