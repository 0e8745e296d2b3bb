"""Measure the eager and the compiled leg of a target in interleaved rounds, and compute figures from the rounds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from statistics import fmean, median

from ...observation import Observation
from ..deciding.statistics import half_width, log_ratios, trimmed_mean
from ..sample import Exact, Paired
from . import kernels, timing
from .python_calls import python_calls
from .stack_depth import with_spare_stack
from .warm_legs import WarmLeg

SESSIONS = 3
PROFILED_SECONDS = 0.01


@dataclass(frozen=True)
class Interleaved:
    """What the rounds measured.

    ``times`` contains, for each quantity (``wall``, and on CUDA devices ``host`` and ``device``), the times per call of
    each leg in seconds. ``calls`` is the number of calls per round of each leg, ``sessions`` the last profiler session
    of each leg on a CUDA device, and ``python_calls`` the number of function calls in one call of eager and of compiled
    code, or None if another profiler was active.
    """

    rounds: int
    calls: Mapping[str, int]
    times: Mapping[str, Mapping[str, list[float]]]
    sessions: Mapping[str, kernels.Profiled]
    python_calls: tuple[int, int] | None

    def pairs(self) -> dict[str, Paired]:
        """Return, for each quantity, the median times of eager and compiled code and the ratio of compiled to eager."""
        pairs = {}
        for quantity, legs in self.times.items():
            eager, compiled = legs["eager"], legs["compiled"]
            ratios = log_ratios(eager, compiled)
            ratio = trimmed_mean(ratios) if len(ratios) > 3 else fmean(ratios)
            width = half_width(ratios) if len(ratios) > 5 else 0.0
            pairs[quantity] = Paired(median(eager), median(compiled), ratio, width)
        return pairs

    @property
    def kernels_per_call(self) -> tuple[int, int] | None:
        """The number of kernels in eager and in compiled code, or None on devices other than CUDA."""
        return (self.sessions["eager"].kernels, self.sessions["compiled"].kernels) if self.sessions else None

    def exact(self, seen: Observation, memory: int | None) -> Exact:
        """Return the counts for compiled code; counts that this torch version does not provide are None, not zero."""
        exact = Exact(memory=memory, python_calls=self.python_calls[1] if self.python_calls else None)
        if session := self.sessions.get("compiled"):
            exact = replace(
                exact,
                kernels=session.kernels,
                cuda_graphs=session.per_call(session.graph_launches),
                collectives=session.per_call(session.collectives),
                syncs=session.per_call(session.waits),
            )
        if seen.not_observable:
            return exact
        guards = [graph.guards for graph in seen.graphs]
        return replace(
            exact,
            graphs=len(seen.graphs),
            graph_breaks=len(seen.graph_breaks),
            recompiles=len(seen.recompiles),
            cudagraph_skips=len(seen.cudagraph_skips),
            guards=None if None in guards else sum(guard or 0 for guard in guards),
        )


def interleaved(legs: Mapping[str, WarmLeg], timer: timing.Timer, *, seconds: float, precision: float) -> Interleaved:
    """Measure warm legs in interleaved rounds. For ``seconds`` and ``precision``, see ``measure_compile``."""
    runs = {name: leg.run for name, leg in legs.items()}
    calls = {name: leg.calls for name, leg in legs.items()}
    if timer.cuda:
        # A synchronized call takes longer than a call in a block of calls, and other processes may have used the
        # device during the warm-up, so compute the number of calls per block again.
        blocks = {name: timer.block(run, calls[name])[0] for name, run in runs.items()}
        calls = {name: timing.calls_per_block(seconds) for name, seconds in blocks.items()}
    device: dict[str, list[float]] = {}
    sessions: dict[str, kernels.Profiled] = {}
    with timing.quiet_host():
        rounds = with_spare_stack(timing.interleave, runs, calls, timer, seconds=seconds, precision=precision)
        if timer.cuda:
            share = PROFILED_SECONDS / timing.BLOCK_SECONDS
            profiled = {name: max(6, min(200, round(count * share))) for name, count in calls.items()}
            device, sessions = with_spare_stack(kernels.interleaved_sessions, runs, profiled, SESSIONS)
        # Python calls are counted last, because counting resets the interpreter's specializations.
        eager, compiled = python_calls(runs["eager"]), python_calls(runs["compiled"])
    wall, host = ({name: [block[i] for block in blocks] for name, blocks in rounds.items()} for i in (0, 1))
    times = {"wall": wall, "host": host, "device": device} if timer.cuda else {"wall": wall}
    counts = None if eager is None or compiled is None else (eager, compiled)
    return Interleaved(len(rounds["eager"]), calls, times, sessions, counts)
