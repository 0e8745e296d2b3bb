"""From stored runs and new ones to a verdict. Plain data: neither torch nor pytest.

The unit of noise is the process: a figure taken again in the same process agrees with itself much better than with
the next process. So the stored runs are whole processes, and their spread is what a new process is held against.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from .sample import Figures
from .statistics import fmean, median, stdev, t_tail

Outcome = Literal["pass", "regressed", "improved", "inconclusive", "no-baseline"]
FAMILY_LEVEL = 0.01
PRIOR_FREEDOM = 4


@dataclass(frozen=True)
class Metric:
    """A gated quantity: the smallest floor it may have, and the spread assumed while few runs are stored."""

    title: str
    floor: float
    spread: float
    kind: Literal["slowdown", "memory", "compile-time"] = "slowdown"


METRICS: Mapping[str, Metric] = {
    "device": Metric("device time", 0.01, 0.003),
    "wall": Metric("wall time", 0.02, 0.008),
    "memory": Metric("peak memory", 0.02, 0.001, "memory"),
    "start": Metric("cold start", 0.25, 0.08, "compile-time"),
    "warm-start": Metric("warm start", 0.25, 0.08, "compile-time"),
}
SUSPICION = 0.1
MAX_PROCESSES = 5


@dataclass(frozen=True)
class Reference:
    """What the stored runs of one metric say: where it lies, how processes scatter, and the floor from that."""

    mean: float
    spread: float
    freedom: float
    runs: int
    floor: float


@dataclass(frozen=True)
class Change:
    """How far new runs lie from the stored ones: ``effect`` is a log ratio, above zero for slower or larger."""

    metric: str
    effect: float
    floor: float
    p_value: float
    outcome: Outcome = "pass"
    note: str = ""

    @property
    def percent(self) -> float:
        """The effect in percent."""
        return 100 * math.expm1(self.effect)


def prior_spread(metric: str, histories: Iterable[Sequence[float]]) -> float:
    """The typical spread of a metric over the suite's entries, or the metric's own when they are few.

    Never nought: a figure that has been the same so far, such as memory, may still move a little.
    """
    own = METRICS[metric].spread
    spreads = [stdev(values) for values in histories if len(values) >= 4]
    return max(median(spreads), own / 4) if len(spreads) >= 4 else own


def reference(metric: str, values: Sequence[float], prior: float | None = None) -> Reference:
    """What ``values`` (one log ratio per stored process) establish.

    Few runs estimate a spread badly, so it is drawn towards ``prior`` as if that came from four more runs. The floor
    is the largest deviation of one stored run from the mean of the others, and never under the metric's own.
    """
    if not values:
        raise ValueError("no stored runs")
    prior = METRICS[metric].spread if prior is None else prior
    count = len(values)
    squares = sum((v - fmean(values)) ** 2 for v in values)
    freedom = count - 1 + PRIOR_FREEDOM
    spread = math.sqrt((squares + PRIOR_FREEDOM * prior**2) / freedom)
    floor = max(METRICS[metric].floor, largest_deviation(values))
    return Reference(fmean(values), spread, freedom, count, floor)


def largest_deviation(values: Sequence[float]) -> float:
    """The largest distance of one value from the mean of the others."""
    count = len(values)
    if count < 2:
        return 0.0
    mean = fmean(values)
    return max(abs(v - mean) for v in values) * count / (count - 1)


def change(metric: str, stored: Reference, values: Sequence[float]) -> Change:
    """How new runs (one log ratio per process) lie against the stored ones, two-sided."""
    effect = fmean(values) - stored.mean
    error = stored.spread * math.sqrt(1 / len(values) + 1 / stored.runs)
    return Change(metric, effect, stored.floor, 2 * t_tail(abs(effect) / error, stored.freedom))


def suspicious(found: Change) -> bool:
    """Whether a change is odd enough to be worth another fresh process."""
    return abs(found.effect) > found.floor / 2 and found.p_value < SUSPICION


def decided(found: Change, level: float) -> Change:
    """The change with its outcome, ``level`` being the share of the family's level that this test has."""
    if abs(found.effect) <= found.floor:
        outcome: Outcome = "pass"
    elif found.p_value > level:
        outcome = "inconclusive"
    else:
        outcome = "regressed" if found.effect > 0 else "improved"
    return replace(found, outcome=outcome)


@dataclass(frozen=True)
class Verdict:
    """The verdict on one test, with the change of every gated metric."""

    outcome: Outcome
    changes: tuple[Change, ...] = ()
    reason: str = ""

    def changed(self, outcome: Outcome) -> tuple[Change, ...]:
        """The changes with this outcome."""
        return tuple(c for c in self.changes if c.outcome == outcome)


def changes_of(
    stored: Sequence[Figures], new: Sequence[Figures], priors: Mapping[str, float] | None = None
) -> list[Change]:
    """The change of every metric that all runs have."""
    found = []
    for metric in METRICS:
        if all(metric in run for run in (*stored, *new)):
            base = reference(metric, [run[metric][2] for run in stored], (priors or {}).get(metric))
            found.append(change(metric, base, [run[metric][2] for run in new]))
    return found


def needs_another_process(
    stored: Sequence[Figures], new: Sequence[Figures], *, tests: int, priors: Mapping[str, float] | None = None
) -> bool:
    """Whether the runs so far are odd, but not enough of them to say regressed or improved."""
    if not stored or len(new) >= MAX_PROCESSES or not any(suspicious(c) for c in changes_of(stored, new, priors)):
        return False
    return judge(stored, new, tests=tests, priors=priors).outcome not in ("regressed", "improved")


def judge(
    stored: Sequence[Figures],
    new: Sequence[Figures],
    *,
    tests: int,
    problems: Iterable[str] = (),
    priors: Mapping[str, float] | None = None,
    level: float = FAMILY_LEVEL,
) -> Verdict:
    """The verdict on one test of a suite of ``tests``, from its stored runs and the new ones.

    ``level`` is the chance that any test of an unchanged suite is called changed; every metric of every test gets
    an equal share of it (Bonferroni), as a test must be decided before the last one has run, and so does every look
    from the second process to the last. One new run is never enough to call a change.
    """
    if reasons := "; ".join(problems):
        return Verdict("inconclusive", reason=reasons)
    if not stored:
        return Verdict("no-baseline", reason="no stored runs of this test in this environment")
    found = changes_of(stored, new, priors)
    share = level / max(1, tests * len(found) * (MAX_PROCESSES - 1))
    settled = tuple(_not_eager(decided(c, share), stored, new) for c in found)
    if len(new) < 2:
        settled = tuple(_unconfirmed(c) for c in settled)
    return Verdict(_worst(settled), settled, _reason(settled, len(new)))


def _unconfirmed(found: Change) -> Change:
    return replace(found, outcome="inconclusive") if found.outcome in ("regressed", "improved") else found


def _not_eager(found: Change, stored: Sequence[Figures], new: Sequence[Figures]) -> Change:
    """A ratio that got worse because eager got faster, while the compiled leg is no slower, is not a regression."""
    if found.outcome == "regressed" and found.metric in ("device", "wall"):
        eager, compiled = (_shift(found.metric, leg, stored, new) for leg in (0, 1))
        noise = largest_deviation([math.log(run[found.metric][0]) for run in stored])
        if compiled <= 0 and eager < -max(found.floor, noise):
            return replace(found, outcome="pass", note="eager got faster, the compiled leg is not slower")
    return found


def _shift(metric: str, leg: int, stored: Sequence[Figures], new: Sequence[Figures]) -> float:
    after, before = (fmean(math.log(run[metric][leg]) for run in runs) for runs in (new, stored))
    return after - before


def _worst(changes: Sequence[Change]) -> Outcome:
    order: tuple[Outcome, ...] = ("regressed", "inconclusive", "improved", "pass")
    return next((o for o in order if any(c.outcome == o for c in changes)), "pass")


def _reason(changes: Sequence[Change], runs: int) -> str:
    notes = [c.note for c in changes if c.note]
    unclear = [METRICS[c.metric].title for c in changes if c.outcome == "inconclusive"]
    if unclear:
        why = "was not confirmed in a fresh process" if runs < 2 else f"cannot be told from noise with {runs} processes"
        notes.append(f"a change of {' and '.join(unclear)} {why}")
    return "; ".join(notes)


@dataclass(frozen=True)
class Split:
    """A change of wall time, as log ratios: the part that came from kernels and the part that came from the host."""

    wall: float
    kernels: float
    host: float

    @property
    def side(self) -> str:
        """Which of the two made at least 70 % of it."""
        if self.kernels >= 0.7 * self.wall:
            return "kernels"
        return "host" if self.host >= 0.7 * self.wall else "kernels and host"


def split_wall(stored: Sequence[Figures], new: Sequence[Figures]) -> Split | None:
    """How a change of wall time splits into kernels and host; None without device time.

    Kernels count for what their time takes of the wall time. Where the host hands out work slower than the device
    does it, the device waits, and slower kernels are hidden.
    """
    if not all("device" in run and "host" in run for run in (*stored, *new)):
        return None
    wall, device = (_ratio_shift(metric, stored, new) for metric in ("wall", "device"))
    seconds = {m: fmean(run[m][1] for run in new) for m in ("wall", "device", "host")}
    launch_bound = seconds["host"] > 0.9 * seconds["wall"] and seconds["device"] < 0.9 * seconds["wall"]
    kernels = 0.0 if launch_bound else device * min(1.0, seconds["device"] / seconds["wall"])
    return Split(wall, kernels, wall - kernels)


def _ratio_shift(metric: str, stored: Sequence[Figures], new: Sequence[Figures]) -> float:
    return fmean(run[metric][2] for run in new) - fmean(run[metric][2] for run in stored)
