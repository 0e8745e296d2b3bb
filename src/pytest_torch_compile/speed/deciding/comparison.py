"""What new runs of a test are compared with: stored runs of the same code, or of other compilations. Plain data.

Inductor chooses kernels by timing them, so that one graph compiled twice is seldom the same code. In 24 tests compiled
seven times on the same kind of device, device time moved by up to 17 % between compilations, and by a few tenths of a
percent between processes that ran the same code. So other compilations are judged by a rule of their own.

An identity is ``source/tuning``. Processes that share a compile cache run the same source (13 of 13 tests in 15
processes on H200s), but may still tune a kernel again: `max-autotune` does so in every process. So runs of one source
count as runs of the same code where the tuning is one that is stored, and where so many tunings of it are stored that
another one is one more of them. Where few are, a new one may be slow by itself, and the next process decides.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean

from ..sample import Figures, source_of
from . import verdict
from .confirmation import MIN_PROCESSES
from .scatter import METRICS, control_of, log_ratio
from .verdict import MetricChange, Verdict

# So many stored runs of one code say how its processes scatter.
MIN_RUNS_OF_A_CODE = 5
# So many compilations say how compilations scatter.
MIN_COMPILATIONS = 3
# Three compilations, each slower by this than every stored run, did not occur in 3,150 draws of an unchanged suite
# (benchmarks/speed/compilations.py).
MARGIN_OF_COMPILATIONS = math.log(1.10)


def same_code(codes: Sequence[str], code: str) -> set[str]:
    """The stored codes of the same source, if this tuning of it is stored too, or many tunings are."""
    tunings = {stored for stored in codes if source_of(stored) == source_of(code)}
    return tunings if code in tunings or len(tunings) >= MIN_RUNS_OF_A_CODE else set()


@dataclass(frozen=True)
class SpeedComparison:
    """The stored runs of a test, and how new ones are judged by them.

    ``codes`` has the code of each run. Where they are of ``other`` compilations than the one that is measured, every
    further process compiles for itself, and a test regressed where each of three compilations is over 10 % slower than
    every stored run, those being of three compilations at least. Where their tuning is a new one among many, ``runs``
    has one run of each. ``retuned``: it is a new one among few, and where it looks changed a further process decides.
    ``remedy``: what a user can do about too few compilations.
    """

    runs: Sequence[Figures]
    codes: Sequence[str]
    tests: int
    other: bool = False
    priors: Mapping[str, float] = field(default_factory=dict)
    retuned: bool = False
    remedy: str = "keep the cache, or record this code"

    @classmethod
    def of(
        cls,
        runs: Sequence[Figures],
        codes: Sequence[str],
        code: str,
        *,
        tests: int,
        priors: Mapping[str, float],
        by_source: bool = True,
    ) -> SpeedComparison:
        """With the runs of the same code, or else of the same source, if five are stored; else with all.

        Without ``by_source``, runs of the same source do not count for a tuning that is not stored.
        """
        stored = list(zip(codes, runs, strict=True))
        same = same_code(codes, code) if by_source or code in codes else set()
        alike = [(its, run) for its, run in stored if its in same]
        if code not in same:
            alike = list(dict(alike).items())  # one run of each tuning
        if len(same) > 1:
            alike = [(its, _without_memory(run)) for its, run in alike]
        if len(alike) == len(runs) or len(alike) >= MIN_RUNS_OF_A_CODE:
            return cls([run for _, run in alike], [its for its, _ in alike], tests, False, priors)
        of_source = [(its, _without_memory(run)) for its, run in stored if source_of(its) == source_of(code)]
        if by_source and len(of_source) >= MIN_RUNS_OF_A_CODE:
            return cls([run for _, run in of_source], [its for its, _ in of_source], tests, False, priors, retuned=True)
        return cls(runs, codes, tests, True, priors)

    def admits(self, code: str, before: Sequence[str]) -> bool:
        """Whether a process that ran this code may confirm what others showed, which ran those ``before``.

        A tuning that is not stored confirms once: two processes with it are no two draws of a tuning.
        """
        return self.other or code in self.codes or (code not in before and bool(same_code(self.codes, code)))

    def needs_another(self, new: Sequence[Figures]) -> bool:
        """Whether the runs so far look changed, but are too few to say so."""
        if not self.other:
            return verdict.needs_another_process(self.runs, new, tests=self.tests, priors=self.priors)
        would_be = self._changes(new, MIN_PROCESSES)
        return len(new) < MIN_PROCESSES and any(change.outcome == "regressed" for change in would_be)

    def judge(self, new: Sequence[Figures], problems: Sequence[str] = (), compilations: int | None = None) -> Verdict:
        """The verdict; the new runs are one compilation each, unless ``compilations`` says that they are fewer."""
        if not self.other or problems:
            return verdict.judge(self.runs, new, tests=self.tests, problems=problems, priors=self.priors)
        measured = self._changes(new, len(new) if compilations is None else compilations)
        changes = tuple(verdict.excused(change, self.runs, new, same_code=False) for change in measured)
        return Verdict(verdict.worst(changes), changes, "; ".join(c.note for c in changes if c.note))

    def _changes(self, new: Sequence[Figures], compilations: int) -> list[MetricChange]:
        """The change of each metric, the new runs being of so many compilations."""
        metrics = [metric for metric in METRICS if metric != "memory"]  # see _without_memory
        return [
            self._change(metric, new, compilations)
            for metric in metrics
            if all(metric in run for run in new) and any(metric in run for run in self.runs)
        ]

    def _change(self, metric: str, new: Sequence[Figures], compilations: int) -> MetricChange:
        known = [(run, code) for run, code in zip(self.runs, self.codes, strict=True) if metric in run]
        control = control_of(metric, [run for run, _ in known])
        stored = [log_ratio(run, metric, control) for run, _ in known]
        now = [log_ratio(run, metric, control) for run in new]
        excess = min(now) - max(stored)
        title, floor = METRICS[metric].title, METRICS[metric].floor
        margin = max(MARGIN_OF_COMPILATIONS, floor)
        stored_compilations = len({code for _, code in known})
        # The chance that so many unchanged compilations are all slower than all that are stored.
        chance = 1 / math.comb(stored_compilations + compilations, compilations)
        allowed = max(stored) - fmean(stored) + margin
        change = MetricChange(metric, fmean(now) - fmean(stored), allowed, chance, control)
        if excess <= floor:
            return change
        if excess > margin and compilations >= MIN_PROCESSES and stored_compilations >= MIN_COMPILATIONS:
            return replace(change, outcome="regressed")
        count = f"{compilations} compilation{'s' if compilations > 1 else ''}"
        note = (
            f"{title} is {100 * math.expm1(excess):.1f} % over the highest stored run, but of other compiled code: "
            f"{count} cannot distinguish this from the compiler's tuning; {self.remedy}"
        )
        return replace(change, outcome="inconclusive", note=note)


def _without_memory(run: Figures) -> Figures:
    """Tuning leaves workspaces behind, so that the memory of processes that tune says nothing.

    Seen on an H200: two that chose the same tuning, of 16 that chose 15, differed by 28 MiB.
    """
    return {name: pair for name, pair in run.items() if name != "memory"}
