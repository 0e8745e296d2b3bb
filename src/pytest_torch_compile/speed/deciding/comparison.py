"""What new runs of a test are held against: stored runs of the same code, or of other compilations. Plain data.

Inductor chooses kernels by timing them, so that one graph compiled twice is seldom the same code. In 24 tests compiled
seven times on the same kind of device, device time moved by up to 17 % between compilations, and by a few tenths of a
percent between processes that ran the same code. So what another compilation is worth is judged by a rule of its own.

An identity is ``source/tuning``. Processes that share a compile cache run the same source (13 of 13 tests in 15
processes on H200s), but may still tune a kernel again: `max-autotune` does so in every process. So runs of one source
count as runs of the same code where the tuning is one that is stored, and where so many tunings of it are stored that
another one is one more of them. Where few are, a new one may be odd by itself, and the next process decides.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from ..sample import Figures
from . import verdict
from .scatter import METRICS, control_of, log_ratio
from .statistics import fmean
from .verdict import MIN_PROCESSES, Change, Verdict

FEWEST_RUNS = 5
# Fewer compilations than this say nothing of how compilations scatter.
FEWEST_COMPILATIONS = 3
# Three compilations, each slower by this than every stored run, did not occur in 3,150 draws of an unchanged suite
# (benchmarks/speed/compilations.py).
ACROSS = math.log(1.10)


def source_of(code: str) -> str:
    """The part of a code's identity that leaves out tuning."""
    return code.partition("/")[0]


def akin_to(code: str, other: str) -> bool:
    """Whether two codes are of one source, however tuned."""
    return source_of(code) == source_of(other)


def same_code(codes: Sequence[str], code: str) -> set[str]:
    """The stored codes of the same source, if this tuning of it is stored too, or many tunings are."""
    alike = {its for its in codes if akin_to(its, code)}
    return alike if code in alike or len(alike) >= FEWEST_RUNS else set()


@dataclass(frozen=True)
class Held:
    """The stored runs of a test, and how new ones are judged by them.

    ``codes`` has the code of each run. Where they are of ``other`` compilations than the one that is measured, every
    further process compiles anew, and a test regressed where each of three compilations is over 10 % slower than every
    stored run, those being of three compilations at least. Where their tuning is a new one among many, ``runs`` has one
    run of each. ``retuned``: it is a new one among few, and where it looks odd a further process decides. ``remedy``:
    what a user can do about too few compilations.
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
    ) -> Held:
        """Held against the runs of the same code, or else of the same source, if five are stored; else against all.

        Without ``by_source``, runs of the same source do not count for a tuning that is not stored.
        """
        same = same_code(codes, code) if by_source or code in codes else set()
        alike = [(run, its) for run, its in zip(runs, codes, strict=True) if its in same]
        if same and code not in same:
            alike = [(run, its) for its, run in {its: run for run, its in alike}.items()]
        if len(same) > 1:
            alike = [(_but_memory(run), its) for run, its in alike]
        if len(alike) == len(runs) or len(alike) >= FEWEST_RUNS:
            return cls([run for run, _ in alike], [its for _, its in alike], tests, False, priors)
        akin = [(_but_memory(run), its) for run, its in zip(runs, codes, strict=True) if akin_to(its, code)]
        if by_source and len(akin) >= FEWEST_RUNS:
            return cls([run for run, _ in akin], [its for _, its in akin], tests, False, priors, retuned=True)
        return cls(runs, codes, tests, True, priors)

    def admits(self, code: str, before: Sequence[str]) -> bool:
        """Whether a process that ran this code may confirm what others showed, which ran those ``before``.

        A tuning that is not stored confirms once: two processes with it are no two draws of a tuning.
        """
        return self.other or code in self.codes or (code not in before and bool(same_code(self.codes, code)))

    def needs_another(self, new: Sequence[Figures]) -> bool:
        """Whether the runs so far are odd, but too few to call a change."""
        if not self.other:
            return verdict.needs_another_process(self.runs, new, tests=self.tests, priors=self.priors)
        return len(new) < MIN_PROCESSES and any(
            self._excess(metric, new) > _margin(metric) and self._compilations(metric) >= FEWEST_COMPILATIONS
            for metric in self._metrics(new)
        )

    def judge(self, new: Sequence[Figures], problems: Sequence[str] = (), compilations: int | None = None) -> Verdict:
        """The verdict; the new runs are one compilation each, unless ``compilations`` says that they are fewer."""
        if not self.other or problems:
            return verdict.judge(self.runs, new, tests=self.tests, problems=problems, priors=self.priors)
        counted = len(new) if compilations is None else compilations
        found = (self._change(metric, new, counted) for metric in self._metrics(new))
        changes = tuple(verdict.not_eager(change, self.runs, new, same_code=False) for change in found)
        return Verdict(verdict.worst(changes), changes, "; ".join(c.note for c in changes if c.note))

    def _metrics(self, new: Sequence[Figures]) -> list[str]:
        judged = (m for m in METRICS if m != "memory")  # see _but_memory
        return [m for m in judged if all(m in run for run in new) and any(m in run for run in self.runs)]

    def _compilations(self, metric: str) -> int:
        """How many compilations the stored runs are of that have this metric."""
        return len({code for run, code in zip(self.runs, self.codes, strict=True) if metric in run})

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
        known = self._compilations(metric)
        chance = 1 / math.comb(known + compilations, compilations)
        found = Change(metric, fmean(now) - fmean(stored), allowed, chance, control)
        if excess <= METRICS[metric].floor:
            return found
        if excess > _margin(metric) and compilations >= MIN_PROCESSES and known >= FEWEST_COMPILATIONS:
            return replace(found, outcome="regressed")
        return replace(found, outcome="inconclusive", note=self._note(metric, excess, compilations))

    def _note(self, metric: str, excess: float, compilations: int) -> str:
        count = f"{compilations} compilation{'s' if compilations > 1 else ''}"
        return (
            f"{METRICS[metric].title} is {100 * math.expm1(excess):.1f} % over the highest stored run, but of other "
            f"compiled code: {count} cannot tell this from the compiler's tuning; {self.remedy}"
        )


def _but_memory(run: Figures) -> Figures:
    """Tuning leaves workspaces behind, so that the memory of processes that tune says nothing.

    Seen on an H200: two that chose the same tuning, of 16 that chose 15, differed by 28 MiB.
    """
    return {name: pair for name, pair in run.items() if name != "memory"}


def _margin(metric: str) -> float:
    return max(ACROSS, METRICS[metric].floor)
