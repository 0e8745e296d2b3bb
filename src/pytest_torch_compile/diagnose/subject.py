"""A failed check that the diagnosis can repeat with changes."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from .._torch.dynamic import without_guard_errors
from ..findings import NO_VERDICT, CompileReport, CompileUsageError
from ..legs.check_record import Check

MORE_TIME = "use diagnose='full' (--compile-diagnose=full) to allow the diagnosis up to ten minutes"


class OutOfTime(Exception):
    """Raised when the time limit of the diagnosis is reached."""


@dataclass(frozen=True)
class RepeatableCheck:
    """A check that can be repeated with changes: ``examine`` runs a check and returns its report without raising, and
    ``seconds`` is the duration of the first run.
    """

    check: Check
    examine: Callable[[Check], CompileReport]
    seconds: float


class Subject:
    """A failed check; ``seconds`` is the time limit of its diagnosis.

    A running trial is never interrupted, so a trial does not start if it is expected to exceed the remaining time.
    """

    def __init__(self, report: CompileReport, remake: RepeatableCheck, seconds: float) -> None:
        self.report, self.work, self.compiling = report, remake.check.work, remake.check.compiling
        self.seconds, self._remake, self._end = seconds, remake, time.monotonic() + seconds
        self._tolerances = remake.check.tolerances
        self._took: dict[str | None, float] = {}
        # The changes that turn this check into a check of the smallest failing module. Empty unless this module is
        # known and has the same finding.
        self.smallest: dict[str, Any] = {}

    @property
    def kinds(self) -> set[str]:
        """The kinds of all findings, except findings that a torch setting caused and findings that are not about the
        code.
        """
        kinds = (finding.kind for finding in self.report.findings if not finding.cause)
        return {kind for kind in kinds if kind not in NO_VERDICT}

    @property
    def ended(self) -> str:
        """The start of a message about steps that were skipped because the time limit was reached."""
        return f"the diagnosis reached its limit of {self.seconds:.0f} s"

    @property
    def left(self) -> float:
        """The remaining seconds."""
        return self._end - time.monotonic()

    def expected_seconds(self, backend: str | None = None) -> float:
        """Return the expected time of a trial with this backend: the time of the longest trial so far with this
        backend. Before the first trial, the time is estimated from the time of the check.

        This estimate excludes the compile time of the stages that the trial skips. The estimate may be too high,
        because the check's time includes the imports of the first compilation.
        """
        if backend in self._took:
            return self._took[backend]
        spent = self.report.observation.compile_seconds
        saved = spent.inductor + spent.backward if backend not in (None, "inductor") else 0.0
        saved += spent.aot_autograd if backend == "eager" else 0.0
        return max(self._remake.seconds - saved, 0.0)

    @contextmanager
    def loosened(self, **tolerances: Any) -> Iterator[None]:
        """Inside the ``with`` block, run checks with these fields of the tolerances changed."""
        before, self._tolerances = self._tolerances, replace(self._tolerances, **tolerances)
        try:
            yield
        finally:
            self._tolerances = before

    def again(self, backend: str | None = None, **changes: Any) -> CompileReport | None:
        """Repeat the check with changed fields of ``Work`` or ``Compiling``. Return its report, or None if the check is
        not possible.

        Raises:
            OutOfTime: If the trial is expected to take longer than the remaining time.
        """
        if self.left <= self.expected_seconds(backend):
            raise OutOfTime
        compiling = self.compiling
        of_compiling = {name: value for name, value in changes.items() if hasattr(compiling, name)}
        if backend is not None and compiling.wrapper is None:
            of_compiling = {"backend": backend, "mode": None, "options": None, **of_compiling}
        of_work = {name: value for name, value in changes.items() if name not in of_compiling}
        began = time.monotonic()
        try:
            with without_guard_errors():
                check = replace(
                    self._remake.check,
                    work=replace(self.work, **of_work),
                    compiling=replace(compiling, **of_compiling),
                    tolerances=self._tolerances,
                )
                return self._remake.examine(check)
        except CompileUsageError:
            return None
        finally:
            if "target" not in changes:  # a check of a submodule takes less time
                self._took[backend] = max(self._took.get(backend, 0.0), time.monotonic() - began)

    def shows(self, report: CompileReport | None, kinds: Collection[str]) -> bool:
        """Return whether a report has a finding of these kinds. A graph break or recompile counts only if the failed
        check has a graph break or recompile with the same cause.
        """
        if report is None:
            return False
        shown = {finding.kind for finding in report.findings if finding.kind in kinds}
        for kind, causes in (("graph-break", break_causes), ("recompile", recompile_causes)):
            if kind in shown and not causes(report) & causes(self.report):
                shown.remove(kind)
        return bool(shown)

    def is_right_in(self, report: CompileReport | None, kinds: Collection[str]) -> bool:
        """Return whether a trial ran and has neither findings of these kinds nor new kinds of findings."""
        return report is not None and {finding.kind for finding in report.findings} <= self.kinds - set(kinds)


def break_causes(report: CompileReport) -> set[tuple[str, int, str]]:
    """Return the location and category of each break. A break that is reached from several callers is listed once."""
    return {(one.location.file, one.location.line, one.category) for one in report.graph_breaks}


def recompile_causes(report: CompileReport) -> set[str]:
    """Return the causes of the recompiles; the cause is an empty string if torch reports no guard."""
    return {recompile.guards[0].cause if recompile.guards else "" for recompile in report.recompiles}
