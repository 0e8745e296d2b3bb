"""What is diagnosed: a failed check, and how to make it again with something changed."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from typing import Any

from ..findings import NO_VERDICT, Budget, CompileReport, CompileUsageError
from ..legs.compiling import Compiling
from ..legs.leg import Work
from ..numerics import Tolerances

Examine = Callable[[Work, Compiling, Budget, Tolerances], CompileReport]


class OutOfTime(Exception):
    """The time for the diagnosis is over."""


@dataclass(frozen=True)
class Remake:
    """All that it takes to make a check again."""

    work: Work
    compiling: Compiling
    budget: Budget
    tolerances: Tolerances
    examine: Examine


class Subject:
    """A failed check; ``seconds`` is the time for its diagnosis. A trial that has begun is not cut off."""

    def __init__(self, report: CompileReport, remake: Remake, seconds: float) -> None:
        self.report, self.work, self.compiling = report, remake.work, remake.compiling
        self._remake, self._end = remake, time.monotonic() + seconds

    @property
    def kinds(self) -> set[str]:
        """The kinds of what was found, without what a setting of torch caused and what says nothing about the code."""
        kinds = (finding.kind for finding in self.report.findings if not finding.cause)
        return {kind for kind in kinds if kind not in NO_VERDICT}

    @property
    def left(self) -> float:
        """Seconds that are left."""
        return self._end - time.monotonic()

    def again(self, backend: str | None = None, **changes: Any) -> CompileReport | None:
        """The check once more, with fields of its work or its compiling changed; None where it cannot be made.

        Raises:
            OutOfTime: no trial may begin any more.
        """
        if self.left <= 0:
            raise OutOfTime
        compiling = self.compiling
        if backend is not None:
            compiling = replace(compiling, backend=backend, mode=None, options=None)
        of_compiling = {name: value for name, value in changes.items() if hasattr(compiling, name)}
        work = replace(self.work, **{name: value for name, value in changes.items() if name not in of_compiling})
        try:
            return self._remake.examine(
                work, replace(compiling, **of_compiling), self._remake.budget, self._remake.tolerances
            )
        except CompileUsageError:
            return None

    def shows(self, report: CompileReport | None, kinds: Collection[str]) -> bool:
        """Whether a report has a finding of these kinds."""
        return report is not None and any(finding.kind in kinds for finding in report.findings)
