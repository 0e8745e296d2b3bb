"""What new runs of a test are held against: stored runs of the same code, or of other compilations. Plain data.

Inductor chooses kernels by timing them, so that one graph compiled twice is seldom the same code. In 24 tests compiled
seven times on the same kind of device, device time moved by up to 17 % between compilations, and by a few tenths of a
percent between processes that ran the same code. So what another compilation is worth is judged by a rule of its own.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from . import verdict
from .reference import METRICS, control_of, log_ratio
from .sample import Figures
from .statistics import fmean
from .verdict import MIN_PROCESSES, Change, Verdict

FEWEST_RUNS = 5
# Three compilations, each slower by this than every stored run, did not occur in 3,150 draws of an unchanged suite
# (benchmarks/speed/compilations.py).
ACROSS = math.log(1.10)


@dataclass(frozen=True)
class Held:
    """The stored runs of a test, and how new ones are judged by them.

    ``codes`` is how many different codes the runs are of, nought if they are of the very code that is measured.
    Otherwise every further process compiles anew, and a test regressed where each of three compilations is over 10 %
    slower than every stored run.
    """

    runs: Sequence[Figures]
    tests: int
    codes: int = 0
    priors: Mapping[str, float] = field(default_factory=dict)

    @classmethod
    def of(
        cls, runs: Sequence[Figures], codes: Sequence[str], code: str, *, tests: int, priors: Mapping[str, float]
    ) -> Held:
        """Held against the runs of the same code if five are stored, else against all."""
        alike = [run for run, its in zip(runs, codes, strict=True) if its == code]
        if len(alike) == len(runs) or len(alike) >= FEWEST_RUNS:
            return cls(alike, tests, 0, priors)
        return cls(runs, tests, len(set(codes)), priors)

    def needs_another(self, new: Sequence[Figures]) -> bool:
        """Whether the runs so far are odd, but too few to call a change."""
        if not self.codes:
            return verdict.needs_another_process(self.runs, new, tests=self.tests, priors=self.priors)
        return len(new) < MIN_PROCESSES and any(
            self._excess(metric, new) > _margin(metric) for metric in self._metrics(new)
        )

    def judge(self, new: Sequence[Figures], problems: Sequence[str] = (), compilations: int | None = None) -> Verdict:
        """The verdict; the new runs are one compilation each, unless ``compilations`` says that they are fewer."""
        if not self.codes or problems:
            return verdict.judge(self.runs, new, tests=self.tests, problems=problems, priors=self.priors)
        counted = len(new) if compilations is None else compilations
        changes = tuple(self._change(metric, new, counted) for metric in self._metrics(new))
        return Verdict(verdict.worst(changes), changes, "; ".join(c.note for c in changes if c.note))

    def _metrics(self, new: Sequence[Figures]) -> list[str]:
        return [m for m in METRICS if all(m in run for run in new) and any(m in run for run in self.runs)]

    def _ratios(self, metric: str, new: Sequence[Figures]) -> tuple[list[float], list[float], str]:
        known = [run for run in self.runs if metric in run]
        control = control_of(metric, known)
        stored, now = ([log_ratio(run, metric, control) for run in runs] for runs in (known, new))
        return stored, now, control

    def _excess(self, metric: str, new: Sequence[Figures]) -> float:
        """How much slower the least slow new run is than the slowest stored one, as a log ratio."""
        stored, now, _ = self._ratios(metric, new)
        return min(now) - max(stored)

    def _change(self, metric: str, new: Sequence[Figures], compilations: int) -> Change:
        stored, now, control = self._ratios(metric, new)
        excess, allowed = self._excess(metric, new), max(stored) - fmean(stored) + _margin(metric)
        # The chance that so many unchanged compilations are all slower than all that are stored.
        chance = 1 / math.comb(self.codes + compilations, compilations)
        found = Change(metric, fmean(now) - fmean(stored), allowed, chance, control)
        if excess <= METRICS[metric].floor:
            return found
        if excess > _margin(metric) and compilations >= MIN_PROCESSES:
            return replace(found, outcome="regressed")
        return replace(found, outcome="inconclusive", note=_note(metric, excess, compilations))


def _margin(metric: str) -> float:
    return max(ACROSS, METRICS[metric].floor)


def _note(metric: str, excess: float, compilations: int) -> str:
    count = f"{compilations} compilation{'s' if compilations > 1 else ''}"
    return (
        f"{METRICS[metric].title} is {100 * math.expm1(excess):.1f} % over the highest stored run, but of other "
        f"compiled code: {count} cannot tell this from the compiler's tuning; keep the cache, or record this code"
    )
