"""Decide from the times of stored and new runs whether a test became slower or faster. This module imports neither
torch nor pytest.

Most of the noise comes from compilation: the times of two processes that run the same code agree much better than the
times of two compilations of the same graph. So the times of new compilations are compared with the spread among the
stored compilations:

1. If the difference between the first run and the stored runs is unlikely to be due to chance, up to seven more
   compilations are requested.
2. The first run is then excluded, because it was selected for being unusual. The additional runs are compared with the
   stored runs by a t test.
3. The significance level is chosen so that the probability of at least one false result in an unchanged suite is at
   most 1%.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from statistics import fmean
from typing import Any, Literal

from ...findings import FindingKind
from ..sample import Run
from .constants import (
    FAMILY_LEVEL,
    FLOORS,
    HOST_BOUND,
    MAX_COMPILATIONS,
    MAX_RUNS,
    MIN_ORDERS,
    PRIOR_FREEDOM,
    SCREEN_OF_A_GAIN,
    SCREEN_OF_A_LOSS,
    SPREADS,
    SPREADS_OF_A_KEPT_CACHE,
)
from .statistics import t_quantile, t_tail

Outcome = Literal["pass", "regressed", "improved", "inconclusive", "no-baseline"]
Metric = Literal["device", "wall", "start", "warm_start"]
METRICS: dict[Metric, tuple[str, FindingKind]] = {
    "device": ("device time", "slowdown"),
    "wall": ("wall time", "slowdown"),
    "start": ("cold start", "compile-time"),
    "warm_start": ("warm start", "compile-time"),
}
STARTS: tuple[Metric, ...] = ("start", "warm_start")


@dataclass(frozen=True)
class Change:
    """The change in one measured time (``metric``), such as wall time, from the stored to the new compilations.

    ``effect`` is the log of the ratio of new to stored times; it is positive if the new compilations are slower.
    ``compilations`` is the number of new compilations in the comparison; ``judge`` excludes the first compilation if
    there are others. ``low`` and ``high`` are the bounds of the effect's 95% confidence interval, and ``p_value`` is
    one-sided. ``against`` is the name of the eager time by which both the new and the stored times are divided; it is
    empty if the times are not divided.
    """

    metric: Metric
    effect: float
    low: float
    high: float
    p_value: float
    compilations: int
    against: str = ""
    outcome: Outcome = "pass"

    def to_dict(self) -> dict[str, Any]:
        """Return the change as JSON-ready data, with the size below which a change does not count."""
        return {**asdict(self), "floor": FLOORS[self.metric], "note": ""}


@dataclass(frozen=True)
class Verdict:
    """The result for the times of one test, with the change in each measured time. ``undecided`` contains the changes
    for which another compilation is needed to decide.
    """

    outcome: Outcome
    changes: tuple[Change, ...] = ()
    reason: str = ""
    undecided: tuple[Change, ...] = ()

    def changed(self, outcome: Outcome) -> tuple[Change, ...]:
        """Return the changes that have this outcome."""
        return tuple(change for change in self.changes if change.outcome == outcome)


def judge(stored: Sequence[Run], new: Sequence[Run], *, tests: int, gates: bool = False) -> Verdict:
    """Compare the new times of one test with its stored runs. ``tests`` is the number of speed tests in the suite.
    ``new`` contains the first run, followed by the additional runs. If ``gates`` is true, a possible improvement is not
    ``inconclusive``, because it cannot fail the test.
    """
    if not stored:
        return Verdict("no-baseline", reason="the baseline for this environment has no runs of this test")
    metrics, not_compared = _comparable(stored, new)
    # The significance level is divided by the number of tests, by the number of quantities (such as wall time) per
    # test, and by the number of comparisons that may be made per quantity. The result is divided by the first run's
    # threshold, because additional runs are judged only if the first run's p-value was below this threshold.
    looks = sum(are_enough(len(stored), further) for further in range(1, MAX_COMPILATIONS))
    level = FAMILY_LEVEL / max(1, tests * len(metrics) * looks) / SCREEN_OF_A_LOSS
    judged = [_change_in(metric, _with(metric, stored), new, level) for metric in metrics]
    if gates and can_decide(stored):
        judged = [(_without_gain(change), is_open) for change, is_open in judged]
    changes = tuple(change for change, _ in judged)
    unclear = _unclear(changes, stored, len(new))
    outcome = worst([*(change.outcome for change in changes), "inconclusive" if not_compared else "pass"])
    # A test that already fails does not need more compilations for undecided times.
    undecided = () if outcome == "regressed" else tuple(change for change, is_open in judged if is_open)
    return Verdict(outcome, changes, "; ".join(filter(None, [unclear, not_compared])), undecided)


def compare(base: Sequence[Run], here: Sequence[Run], *, tests: int) -> Verdict:
    """Compare the times of one test on two revisions. The revisions ran alternately, and each run compiled from
    scratch. Unlike ``judge``, this function does not exclude the first run.
    """
    metrics = _measured([*base, *here])
    looks = sum(are_enough(count, count) for count in range(1, MAX_COMPILATIONS + 1))
    level = FAMILY_LEVEL / max(1, 2 * tests * len(metrics) * looks)
    changes = []
    for metric in metrics:
        against = _against(metric, [*base, *here])
        before, after = ([_value(run, metric, against) for run in side] for side in (base, here))
        change = _compared(metric, against, before, after, kept=False)
        if abs(change.effect) > FLOORS[metric] and change.p_value < SCREEN_OF_A_LOSS:
            sure = are_enough(len(before), len(after)) and change.p_value <= level
            eager_only = change.effect > 0 and _only_eager_changed(metric, base, here)
            outcome: Outcome = "regressed" if change.effect > 0 else "improved"
            change = replace(change, outcome="pass" if eager_only else outcome if sure else "inconclusive")
        changes.append(change)
    outcome = worst([change.outcome for change in changes])
    reason = (
        f"{len(here)} compilations of each revision are not enough to distinguish this change from noise"
        if outcome == "inconclusive"
        else ""
    )
    undecided = tuple(change for change in changes if change.outcome == "inconclusive")
    return Verdict(outcome, tuple(changes), reason, undecided)


def are_enough(stored: int, further: int) -> bool:
    """Return whether a rank test could detect a change with these numbers of stored and additional compilations."""
    return math.comb(stored + further, further) >= MIN_ORDERS


# The number of stored runs from which on times are judged.
ENOUGH_RUNS = next(number for number in range(1, MAX_RUNS) if are_enough(number, MAX_COMPILATIONS - 1))


def can_decide(stored: Sequence[Run]) -> bool:
    """Return whether enough runs are stored to decide whether a time has changed."""
    return are_enough(len(stored), MAX_COMPILATIONS - 1)


def worst(outcomes: Sequence[Outcome]) -> Outcome:
    """Return the outcome of a test: ``regressed`` if any of its times regressed; otherwise ``inconclusive`` if any time
    is inconclusive; otherwise ``improved`` if any time improved; otherwise ``pass``.
    """
    order: tuple[Outcome, ...] = ("regressed", "inconclusive", "improved")
    return next((outcome for outcome in order if outcome in outcomes), "pass")


def is_kept(runs: Sequence[Run]) -> bool:
    """Return whether all runs used a persistent compile cache, and therefore ran the same code."""
    return bool(runs) and all(run.kept_cache for run in runs)


def _measured(runs: Sequence[Run]) -> list[Metric]:
    return [metric for metric in METRICS if len(_with(metric, runs)) == len(runs)]


def _with(metric: Metric, runs: Sequence[Run]) -> list[Run]:
    """Return the runs in which ``metric`` was measured."""
    return [run for run in runs if getattr(run, metric) is not None]


def _comparable(stored: Sequence[Run], new: Sequence[Run]) -> tuple[list[Metric], str]:
    """Return the metrics that can be compared, and the reason, if any, why cold and warm starts cannot be compared."""
    measured, starts = _measured(new), _with("start", stored)
    metrics = [metric for metric in measured if _with(metric, stored)]
    if "start" in measured and not starts:
        return metrics, "cold starts were not compared, because the baseline has none; record the baseline again"
    if other := _other_compile_processes(starts, new):
        return [metric for metric in metrics if metric not in STARTS], other
    return metrics, ""


def _unclear(changes: Sequence[Change], stored: Sequence[Run], number: int) -> str:
    """Return the reason, if any, why ``number`` compilations do not show whether a time has changed."""
    unclear = [change.metric for change in changes if change.outcome == "inconclusive"]
    if not unclear:
        return ""
    if (few := min(len(_with(metric, stored)) for metric in unclear)) < ENOUGH_RUNS:
        return f"only {few} compilation{'s are' if few > 1 else ' is'} stored, but {ENOUGH_RUNS} are needed"
    names = " and ".join(METRICS[metric][0] for metric in unclear)
    return f"{number} compilations are not enough to distinguish a change in {names} from noise"


def _change_in(metric: Metric, stored: Sequence[Run], new: Sequence[Run], level: float) -> tuple[Change, bool]:
    """Return the change in one measured time, and whether another compilation is needed to decide."""
    against = _against(metric, new, stored)
    before = [_value(run, metric, against) for run in stored]
    first, *further = (_value(run, metric, against) for run in new)
    change = _compared(metric, against, before, further or [first], is_kept(stored))
    slower, large = change.effect > 0, abs(change.effect) > FLOORS[metric]
    if metric == "wall" and not slower and host_bound(new) and not host_bound(stored):
        return change, False  # the host is slower than usual, which slows down eager more than compiled code
    if not further:
        rare = change.p_value < (SCREEN_OF_A_LOSS if slower else SCREEN_OF_A_GAIN)
        if not (rare and abs(change.effect) > FLOORS[metric] / 2):
            return change, False
        if slower and _host_became_slower(change, stored, new):
            return change, False
        return (change, True) if can_decide(stored) else (replace(change, outcome="inconclusive"), False)
    if slower != (first > fmean(before)) or not large:
        return change, False  # the additional runs do not confirm the first run
    if slower and (_only_eager_changed(metric, stored, new) or _host_became_slower(change, stored, new)):
        return change, False
    if are_enough(len(before), len(further)) and change.p_value <= level:
        return replace(change, outcome="regressed" if slower else "improved"), False
    if len(new) < MAX_COMPILATIONS:
        return replace(change, outcome="inconclusive"), True
    return replace(change, outcome="inconclusive" if change.p_value < SCREEN_OF_A_LOSS else "pass"), False


def _without_gain(change: Change) -> Change:
    gain = change.outcome == "inconclusive" and change.effect < 0
    return replace(change, outcome="pass") if gain else change


def _compared(metric: Metric, against: str, before: Sequence[float], after: Sequence[float], kept: bool) -> Change:
    """Compare two samples with a t test that combines the samples' spread with the typical spread."""
    typical = (SPREADS_OF_A_KEPT_CACHE if kept else SPREADS)[metric]
    effect = fmean(after) - fmean(before)
    squares = sum((value - fmean(values)) ** 2 for values in (before, after) for value in values)
    freedom = len(before) + len(after) - 2 + PRIOR_FREEDOM
    spread = math.sqrt((squares + PRIOR_FREEDOM * typical**2) / freedom)
    error = spread * math.sqrt(1 / len(before) + 1 / len(after))
    half = t_quantile(0.975, freedom) * error
    return Change(
        metric, effect, effect - half, effect + half, t_tail(abs(effect) / error, freedom), len(after), against
    )


def _against(metric: Metric, new: Sequence[Run], stored: Sequence[Run] = ()) -> str:
    """Return the name of the eager time by which to divide ``metric``, so that the speed of the machine cancels out.
    Return an empty string if ``metric`` is not divided.

    If the kernels limit the compiled wall time, a slower host slows down compiled code less than eager, so compiled
    wall time is compared with eager's device time.
    """
    if metric == "wall":
        return "wall" if host_bound(new) or not all(run.device for run in (*stored, *new)) else "device"
    return "device" if metric == "device" else ""


def host_bound(runs: Sequence[Run]) -> bool:
    """Return whether the host takes nearly all of the compiled wall time. If the host or device times are unknown,
    return True.
    """
    shares = [run.host.compiled / run.wall.compiled for run in runs if run.host and run.device]
    return not shares or fmean(shares) > HOST_BOUND


def _value(run: Run, metric: Metric, against: str) -> float:
    """Return the log of the compiled time, or of its ratio to the eager time."""
    if not against:
        return math.log(getattr(run, metric))
    times = getattr(run, metric)
    return float(times.log_ratio) if against == metric else math.log(times.compiled / getattr(run, against).eager)


def _only_eager_changed(metric: Metric, stored: Sequence[Run], new: Sequence[Run]) -> bool:
    """Return whether eager became faster and compiled code did not become slower, in which case a lower speedup is not
    a regression.
    """
    if metric not in ("device", "wall"):
        return False

    def shift(leg: str) -> float:
        after, before = (fmean(math.log(getattr(getattr(run, metric), leg)) for run in runs) for runs in (new, stored))
        return after - before

    return shift("eager") < -FLOORS[metric] and shift("compiled") <= 0


def _host_became_slower(change: Change, stored: Sequence[Run], new: Sequence[Run]) -> bool:
    """Return whether a slower host explains why a cold or warm start takes longer.

    Starts are not divided by an eager time, because no part of eager is similar to a compilation. But if eager needs
    more host time, the host also compiles more slowly.
    """
    if change.metric not in STARTS:
        return False
    after, before = (fmean(math.log((run.host or run.wall).eager) for run in runs) for runs in (new, stored))
    return change.effect - max(0.0, after - before) <= FLOORS[change.metric]


def _other_compile_processes(stored: Sequence[Run], new: Sequence[Run]) -> str:
    """Return why the cold starts cannot be compared: Inductor compiled in another number of processes. Return ``""`` if
    they can be compared.
    """
    before, now = ({run.compile_processes for run in runs if run.start} - {0} for runs in (stored, new))
    if not before or not now or now <= before:
        return ""
    stored_numbers = " or ".join(map(str, sorted(before)))
    return (
        f"cold starts were not compared: the number of compile processes is {max(now)}, but {stored_numbers} in the "
        "baseline; set TORCHINDUCTOR_COMPILE_THREADS, or record the baseline again"
    )
