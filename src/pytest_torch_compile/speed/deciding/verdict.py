"""From stored runs and new ones to a verdict. Plain data: neither torch nor pytest.

The unit of noise is the process: a figure taken again in the same process agrees with itself much better than with
the next process. So the stored runs are whole processes, and a new process is compared with how those scatter.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean, stdev
from typing import Literal

from ..sample import Figures
from . import counts
from .confirmation import MAX_PROCESSES, MIN_PROCESSES, P_OF_A_GAIN, P_OF_A_LOSS
from .scatter import METRICS, Reference, control_of, log_ratio, mean_shift, prior_for, reference
from .statistics import t_tail

Outcome = Literal["pass", "regressed", "improved", "inconclusive", "no-baseline"]
# The chance that any test of an unchanged suite is called changed.
FAMILY_LEVEL = 0.01


@dataclass(frozen=True)
class MetricChange:
    """How far new runs lie from the stored ones: ``effect`` is a log ratio, above zero for slower or larger.

    It is the mean of the ``effects`` of the new processes. If they scatter as the stored ones do, ``error`` is its
    standard error and ``p_if_steady`` its p value; ``p_value`` is that where they may scatter more.
    """

    metric: str
    effect: float
    floor: float
    p_value: float
    control: str = ""
    outcome: Outcome = "pass"
    note: str = ""
    effects: tuple[float, ...] = ()
    error: float = 0.0
    p_if_steady: float = 1.0

    @property
    def percent(self) -> float:
        """The effect in percent."""
        return 100 * math.expm1(self.effect)

    @property
    def sizes(self) -> list[float]:
        """The effects, the smallest first; above zero where they go the way of the mean."""
        return sorted(math.copysign(1.0, self.effect) * effect for effect in self.effects)

    @property
    def confirmed(self) -> bool:
        """Whether there are three processes or more, whose mean is over the floor without the largest effect too."""
        return len(self.effects) >= MIN_PROCESSES and fmean(self.sizes[:-1]) > self.floor

    @property
    def is_one_outlier(self) -> bool:
        """Whether one process made the change, and each of the others, two at least, shows none."""
        return len(self.effects) >= MIN_PROCESSES and self.sizes[-2] <= self.floor / 2

    @property
    def is_suspicious(self) -> bool:
        """Whether the change is worth another fresh process."""
        rare = self.p_if_steady < (P_OF_A_LOSS if self.effect > 0 else P_OF_A_GAIN)
        return abs(self.effect) > self.floor / 2 and rare and not self.is_one_outlier


@dataclass(frozen=True)
class Verdict:
    """The verdict on one test, with the change of every gated metric."""

    outcome: Outcome
    changes: tuple[MetricChange, ...] = ()
    reason: str = ""

    def changed(self, outcome: Outcome) -> tuple[MetricChange, ...]:
        """The changes with this outcome."""
        return tuple(c for c in self.changes if c.outcome == outcome)


def judge(
    stored: Sequence[Figures],
    new: Sequence[Figures],
    *,
    tests: int,
    problems: Iterable[str] = (),
    priors: Mapping[str, float] | None = None,
) -> Verdict:
    """The verdict on one test of a suite of ``tests``, from its stored runs and the new ones.

    Every metric of every test gets an equal share of the suite's level (Bonferroni), as a test must be decided before
    the last one has run, and so does every look from the third process to the last. A change is called from three
    processes on, and where it does not rest on one of them.
    """
    if reasons := "; ".join(problems):
        return Verdict("inconclusive", reason=reasons)
    if not stored:
        return Verdict("no-baseline", reason="no stored runs of this test in this environment")
    measured = changes_of(stored, new, priors)
    level = FAMILY_LEVEL / max(1, tests * len(measured) * (1 + MAX_PROCESSES - MIN_PROCESSES))
    decided = (_with_counted_work(_decided(change, level), stored, new) for change in measured)
    changes = tuple(excused(change, stored, new) for change in decided)
    notes = [change.note for change in changes if change.note]
    if unclear := [METRICS[change.metric].title for change in changes if change.outcome == "inconclusive"]:
        confirmed = f"cannot be distinguished from noise with {len(new)} processes"
        why = "was not confirmed in fresh processes" if len(new) < MIN_PROCESSES else confirmed
        notes.append(f"a change of {' and '.join(unclear)} {why}")
    return Verdict(worst(changes), changes, "; ".join(notes))


def needs_another_process(
    stored: Sequence[Figures], new: Sequence[Figures], *, tests: int, priors: Mapping[str, float] | None = None
) -> bool:
    """Whether the runs so far look changed, but are too few to say regressed or improved."""
    if not stored or len(new) >= MAX_PROCESSES:
        return False
    measured = changes_of(stored, new, priors)
    may_cost = any(_may_cost(change, stored, new) for change in measured)
    if not may_cost and not any(change.is_suspicious for change in measured):
        return False
    outcome = judge(stored, new, tests=tests, priors=priors).outcome
    return outcome != "regressed" and (may_cost or outcome != "improved")


def worst(changes: Sequence[MetricChange]) -> Outcome:
    """The outcome of a test, from those of its metrics."""
    order: tuple[Outcome, ...] = ("regressed", "inconclusive", "improved", "pass")
    return next((o for o in order if any(c.outcome == o for c in changes)), "pass")


def changes_of(
    stored: Sequence[Figures], new: Sequence[Figures], priors: Mapping[str, float] | None = None
) -> list[MetricChange]:
    """The change of every metric that all runs have."""
    changes = []
    for metric in METRICS:
        known = [run for run in stored if metric in run]
        if known and all(metric in run for run in new):
            changes.append(_change(reference(metric, known, prior_for(metric, known, priors or {})), new))
    return changes


def _change(base: Reference, new: Sequence[Figures]) -> MetricChange:
    """How new runs lie against the stored ones: a two-sample t test, two-sided."""
    effects = tuple(log_ratio(run, base.metric, base.control) - base.mean for run in new)
    effect, error = fmean(effects), base.spread * math.sqrt(1 / len(new) + 1 / base.runs)
    change = MetricChange(
        base.metric,
        effect,
        base.floor,
        _p_value(base, effects),
        base.control,
        effects=effects,
        error=error,
        p_if_steady=2 * t_tail(abs(effect) / error, base.freedom),
    )
    if len(effects) > MIN_PROCESSES:
        # One process far beyond others which are all slower widens the scatter; what the others show counts without it.
        return replace(change, p_value=min(change.p_value, _p_value(base, change.sizes[:-1])))
    return change


def _p_value(base: Reference, effects: Sequence[float]) -> float:
    """With the spread of stored and new runs pooled, or that of the new runs where it is larger.

    The stored ones are many, and may be of a quieter day.
    """
    effect = fmean(effects)
    squares = sum((one - effect) ** 2 for one in effects)
    freedom = base.freedom + len(effects) - 1
    pooled = math.sqrt((base.freedom * base.spread**2 + squares) / freedom)
    spread = max(pooled, math.sqrt(squares / max(1, len(effects) - 1)))
    return 2 * t_tail(abs(effect) / (spread * math.sqrt(1 / len(effects) + 1 / base.runs)), freedom)


def _decided(change: MetricChange, level: float) -> MetricChange:
    """The change with its outcome, ``level`` being the share of the family's level that this test has."""
    if abs(change.effect) <= change.floor:
        return change
    if change.is_one_outlier:
        off = 100 * math.expm1(math.copysign(change.sizes[-1], change.effect))
        return replace(change, note=f"one process was {off:+.1f} % off, the other {len(change.effects) - 1} were not")
    if change.p_value > level or not change.confirmed:
        return replace(change, outcome="inconclusive" if change.is_suspicious else "pass")
    return replace(change, outcome="regressed" if change.effect > 0 else "improved")


def _with_counted_work(change: MetricChange, stored: Sequence[Figures], new: Sequence[Figures]) -> MetricChange:
    """The change once more where the leg does more work than in any stored run: then no chance has to be ruled out.

    It is still a change of time that is called: over the metric's own floor, and rare for these processes.
    """
    more = counts.more_work(change.metric, stored, new)
    if more is None:
        return change
    called = replace(
        change, floor=METRICS[change.metric].floor, outcome="regressed", note=counts.explained(change.metric, more)
    )
    rare = change.effect > 0 and change.p_value / 2 < counts.LEVEL and called.confirmed
    return called if rare or change.outcome == "regressed" else change


def _may_cost(change: MetricChange, stored: Sequence[Figures], new: Sequence[Figures]) -> bool:
    """Whether a leg does more work, and it is not clear yet that this costs no time."""
    highest = change.effect + counts.STANDARD_ERRORS * change.error
    more = counts.more_work(change.metric, stored, new)
    return highest > METRICS[change.metric].floor and more is not None


def excused(
    change: MetricChange, stored: Sequence[Figures], new: Sequence[Figures], *, same_code: bool = True
) -> MetricChange:
    """A regression must be the compiled leg's: not a faster eager, and not a device or host that is slower for both."""
    metric, control = change.metric, change.control
    if change.outcome != "regressed" or metric not in ("device", "wall"):
        return change
    stored = [run for run in stored if metric in run and (control or metric) in run]
    if not control:
        if mean_shift(metric, metric, stored, new) < change.effect / 4:
            return replace(change, outcome="inconclusive", note="eager got slower alike")
        return change
    if metric == "wall" and control == "device":
        # Other code of the same graph calls other functions, and more of them are no slower leg.
        has_more_work = same_code and counts.more_work("wall", stored, new) is not None
        if not has_more_work and _host_is_slow(change, stored, new):
            return replace(change, outcome="inconclusive", note="the host was slower for eager alike")
    before = [math.log(run[control][0]) for run in stored]
    eager = fmean(math.log(run[control][0]) for run in new) - fmean(before)
    eager_noise = 2 * stdev(before) if len(before) > 1 else 0.0
    if eager < -eager_noise and mean_shift(metric, "", stored, new) <= 0:
        return replace(change, outcome="pass", note="eager got faster, the compiled leg is not slower")
    return change


def _host_is_slow(change: MetricChange, stored: Sequence[Figures], new: Sequence[Figures]) -> bool:
    """Whether neither kernels nor the host's part of this leg explain half of a change: then all Python got slower.

    Compared with device time, the wall time of a leg whose host is nearly as slow as its kernels moves with the host.
    """
    if not all("host" in run and "device" in run for run in (*stored, *new)):
        return False
    host = mean_shift("host", "host", stored, new)
    kernels = mean_shift("device", control_of("device", stored), stored, new)
    return max(host, kernels) < change.effect / 2
