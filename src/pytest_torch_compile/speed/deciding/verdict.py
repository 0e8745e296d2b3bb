"""From stored runs and new ones to a verdict. Plain data: neither torch nor pytest.

The unit of noise is the process: a figure taken again in the same process agrees with itself much better than with
the next process. So the stored runs are whole processes, and their spread is what a new process is held against.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from ..sample import Figures
from . import counts as counted
from .scatter import METRICS, Reference, control_of, log_ratio, prior_for, reference
from .statistics import fmean, stdev, t_tail

Side = Literal["kernels", "host", "kernels and host"]
Outcome = Literal["pass", "regressed", "improved", "inconclusive", "no-baseline"]
FAMILY_LEVEL = 0.01
SUSPICION = 0.05
HOPE = 0.01
MIN_PROCESSES, MAX_PROCESSES = 3, 8


@dataclass(frozen=True)
class Change:
    """How far new runs lie from the stored ones: ``effect`` is a log ratio, above zero for slower or larger.

    It is the mean of the ``effects`` of the new processes. If they scatter as the stored ones do, ``error`` is its
    standard error and ``odd`` its chance; ``p_value`` is its chance where they may scatter more.
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
    odd: float = 1.0

    @property
    def percent(self) -> float:
        """The effect in percent."""
        return 100 * math.expm1(self.effect)

    @property
    def sizes(self) -> list[float]:
        """The effects in order, the smallest first; above zero where they go the way of the mean."""
        return sorted(math.copysign(1.0, self.effect) * effect for effect in self.effects)

    @property
    def confirmed(self) -> bool:
        """Whether there are three processes or more, whose mean is over the floor without the oddest one too."""
        return len(self.effects) >= MIN_PROCESSES and fmean(self.sizes[:-1]) > self.floor

    @property
    def alone(self) -> bool:
        """Whether one process made the change, and each of the others, two at least, shows none."""
        return len(self.effects) >= MIN_PROCESSES and self.sizes[-2] <= self.floor / 2


def change(base: Reference, new: Sequence[Figures]) -> Change:
    """How new runs lie against the stored ones: a two-sample t test, two-sided.

    The spread is that of both, pooled, or that of the new runs where it is larger: the stored ones are many, and may be
    of a quieter day.
    """
    effects = tuple(log_ratio(run, base.metric, base.control) - base.mean for run in new)
    effect = fmean(effects)
    found = Change(base.metric, effect, base.floor, _chance(base, effects), base.control, effects=effects)
    if len(effects) > MIN_PROCESSES:
        # One that is far beyond others which are all slower scatters, but what the others show stands without it.
        sign = math.copysign(1.0, effect)
        found = replace(found, p_value=min(found.p_value, _chance(base, [sign * its for its in found.sizes[:-1]])))
    error = base.spread * math.sqrt(1 / len(new) + 1 / base.runs)
    return replace(found, error=error, odd=2 * t_tail(abs(effect) / error, base.freedom))


def _chance(base: Reference, effects: Sequence[float]) -> float:
    effect, apart = fmean(effects), math.sqrt(1 / len(effects) + 1 / base.runs)
    squares = sum((its - effect) ** 2 for its in effects)
    freedom = base.freedom + len(effects) - 1
    pooled = math.sqrt((base.freedom * base.spread**2 + squares) / freedom)
    spread = max(pooled, math.sqrt(squares / max(1, len(effects) - 1)))
    return 2 * t_tail(abs(effect) / (spread * apart), freedom)


def suspicious(found: Change) -> bool:
    """Whether a change is odd enough to be worth another fresh process; a gain has to be odder than a loss."""
    odd = abs(found.effect) > found.floor / 2 and found.odd < (SUSPICION if found.effect > 0 else HOPE)
    return odd and not found.alone


def decided(found: Change, level: float) -> Change:
    """The change with its outcome, ``level`` being the share of the family's level that this test has."""
    if abs(found.effect) <= found.floor:
        return found
    if found.alone:
        off = 100 * math.expm1(math.copysign(found.sizes[-1], found.effect))
        return replace(found, note=f"one process was {off:+.1f} % off, the other {len(found.effects) - 1} were not")
    if found.p_value > level or not found.confirmed:
        return replace(found, outcome="inconclusive" if suspicious(found) else "pass")
    return replace(found, outcome="regressed" if found.effect > 0 else "improved")


def _with_its_work(found: Change, stored: Sequence[Figures], new: Sequence[Figures]) -> Change:
    """The change once more where the leg does more work than ever: then no chance has to be ruled out.

    It is still a change of time that is called: over the metric's own floor, and odd for these processes.
    """
    more = counted.more_work(found.metric, stored, new)
    if not more:
        return found
    closer = replace(found, floor=METRICS[found.metric].floor)
    odd = found.effect > 0 and found.p_value / 2 < counted.ODD and closer.confirmed
    if not odd and found.outcome != "regressed":
        return found
    return replace(closer, outcome="regressed", note=counted.said(found.metric, more))


def _may_cost(found: Change, stored: Sequence[Figures], new: Sequence[Figures]) -> bool:
    """Whether a leg does more work, and it is not clear yet that this costs nothing."""
    hoped = found.effect + counted.GIVEN_UP * found.error
    return hoped > METRICS[found.metric].floor and bool(counted.more_work(found.metric, stored, new))


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
        known = [run for run in stored if metric in run]
        if known and all(metric in run for run in new):
            prior = prior_for(metric, known, priors or {})
            found.append(change(reference(metric, known, prior), new))
    return found


def needs_another_process(
    stored: Sequence[Figures], new: Sequence[Figures], *, tests: int, priors: Mapping[str, float] | None = None
) -> bool:
    """Whether the runs so far are odd, but not enough of them to say regressed or improved."""
    found = changes_of(stored, new, priors) if stored and len(new) < MAX_PROCESSES else []
    costly = any(_may_cost(c, stored, new) for c in found)
    if not costly and not any(suspicious(c) for c in found):
        return False
    outcome = judge(stored, new, tests=tests, priors=priors).outcome
    return outcome != "regressed" and (costly or outcome != "improved")


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
    from the third process to the last; what does more work than ever has to be odd only. A change is called from three
    processes on, and where it does not rest on one of them.
    """
    if reasons := "; ".join(problems):
        return Verdict("inconclusive", reason=reasons)
    if not stored:
        return Verdict("no-baseline", reason="no stored runs of this test in this environment")
    found = changes_of(stored, new, priors)
    share = level / max(1, tests * len(found) * (1 + MAX_PROCESSES - MIN_PROCESSES))
    settled = tuple(not_eager(_with_its_work(decided(c, share), stored, new), stored, new) for c in found)
    return Verdict(worst(settled), settled, _reason(settled, len(new)))


def not_eager(found: Change, stored: Sequence[Figures], new: Sequence[Figures], *, same_code: bool = True) -> Change:
    """A regression must be the compiled leg's: not a faster eager, and not a device or host that is slower for both."""
    if found.outcome != "regressed" or found.metric not in ("device", "wall"):
        return found
    stored = [run for run in stored if found.metric in run and (found.control or found.metric) in run]
    if found.control == "":
        paired = _ratio_shift(found.metric, found.metric, stored, new)
        slower_for_both = paired < found.effect / 4
        return replace(found, outcome="inconclusive", note="eager got slower alike") if slower_for_both else found
    # Other code of the same graph calls other functions, and more of them are no slower leg.
    more = same_code and counted.more_work("wall", stored, new)
    if found.metric == "wall" and found.control == "device" and not more and _host_is_slow(found, stored, new):
        return replace(found, outcome="inconclusive", note="the host was slower for eager alike")
    control = found.control
    eager, compiled = _shift(control, 0, stored, new), _shift(found.metric, 1, stored, new)
    noise = 2 * stdev(math.log(run[control][0]) for run in stored) if len(stored) > 1 else 0.0
    if compiled <= 0 and eager < -noise:
        return replace(found, outcome="pass", note="eager got faster, the compiled leg is not slower")
    return found


def _host_is_slow(found: Change, stored: Sequence[Figures], new: Sequence[Figures]) -> bool:
    """Whether neither kernels nor the host's part of this leg explain half of a change: then all Python got slower.

    Held against device time, the wall time of a leg whose host is nearly as slow as its kernels moves with the machine.
    """
    if not all("host" in run and "device" in run for run in (*stored, *new)):
        return False
    host = _ratio_shift("host", "host", stored, new)
    kernels = _ratio_shift("device", control_of("device", stored), stored, new)
    return max(host, kernels) < found.effect / 2


def _shift(metric: str, leg: int, stored: Sequence[Figures], new: Sequence[Figures]) -> float:
    after, before = (fmean(math.log(run[metric][leg]) for run in runs) for runs in (new, stored))
    return after - before


def worst(changes: Sequence[Change]) -> Outcome:
    """The outcome of a test, from those of its metrics."""
    order: tuple[Outcome, ...] = ("regressed", "inconclusive", "improved", "pass")
    return next((o for o in order if any(c.outcome == o for c in changes)), "pass")


def _reason(changes: Sequence[Change], runs: int) -> str:
    notes = [c.note for c in changes if c.note]
    unclear = [METRICS[c.metric].title for c in changes if c.outcome == "inconclusive"]
    if unclear:
        why = (
            "was not confirmed in fresh processes"
            if runs < MIN_PROCESSES
            else f"cannot be told from noise with {runs} processes"
        )
        notes.append(f"a change of {' and '.join(unclear)} {why}")
    return "; ".join(notes)


@dataclass(frozen=True)
class Split:
    """A change of wall time, as log ratios: the part that came from kernels and the part that came from the host."""

    wall: float
    kernels: float
    host: float

    @property
    def side(self) -> Side:
        """Which of the two made at least 70 % of it."""
        if self.kernels >= 0.7 * self.wall:
            return "kernels"
        return "host" if self.host >= 0.7 * self.wall else "kernels and host"


def side_of(verdict: Verdict, split: Split | None) -> Side | None:
    """Where a regression comes from. Slower kernels that hide behind the host are a regression all the same."""
    slower = {found.metric for found in verdict.changed("regressed")}
    if "wall" not in slower:
        return "kernels" if "device" in slower else None
    if split is None:
        return "kernels and host" if "device" in slower else None
    return "kernels and host" if "device" in slower and split.side == "host" else split.side


def split_wall(stored: Sequence[Figures], new: Sequence[Figures]) -> Split | None:
    """How a change of wall time splits into kernels and host; None without device time.

    Kernels count for what their time takes of the wall time. Where the host hands out work slower than the device
    does it, the device waits, and slower kernels are hidden.
    """
    if not all("device" in run and "host" in run for run in (*stored, *new)):
        return None
    wall, device = (_ratio_shift(m, control_of(m, stored), stored, new) for m in ("wall", "device"))
    seconds = {m: fmean(run[m][1] for run in new) for m in ("wall", "device", "host")}
    launch_bound = seconds["host"] > 0.9 * seconds["wall"] and seconds["device"] < 0.9 * seconds["wall"]
    kernels = 0.0 if launch_bound else device * min(1.0, seconds["device"] / seconds["wall"])
    return Split(wall, kernels, wall - kernels)


def _ratio_shift(metric: str, control: str, stored: Sequence[Figures], new: Sequence[Figures]) -> float:
    after, before = (fmean(log_ratio(run, metric, control) for run in runs) for runs in (new, stored))
    return after - before
