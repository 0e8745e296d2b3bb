"""A separate pytest test for one target, which reports the checks that ran during the ordinary tests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ..check import acceptance
from ..events import announce
from ..findings import CompileCheckFailed
from .verdicts import UNCHECKED, Row


class ExistingItem(pytest.Item):
    """A test for one target, which passes, fails or is skipped according to the target's checks."""

    shows_existing = True  # the checks have already run, so this test needs no separate process

    def __init__(self, *, row: Row, known: str = "", **keywords: Any) -> None:
        super().__init__(**keywords)
        self.row = row
        self.known = known

    @classmethod
    def of(cls, session: pytest.Session, row: Row, known: str = "") -> ExistingItem:
        """Create the test for one row of the table of targets. ``known`` is the reason why the test is expected to
        fail; it is empty if the test is expected to pass.
        """
        return cls.from_parent(session, name=row.test, nodeid=row.test, row=row, known=known)

    def runtest(self) -> None:
        """Pass each check's report to the plugin's listeners. Fail if a report has findings, or xfail if the failure is
        expected. Skip if nothing was checked.
        """
        failures = []
        for result in self.row.results:
            if result.report is None:
                continue
            announce(result.report)
            if acceptance.current is not None:
                acceptance.current.found_breaks |= result.breaks
                found = max(acceptance.current.found_recompiles, result.recompiles)
                acceptance.current.found_recompiles = found
            if result.report.findings:
                failures.append(f"{result.report.text}\n\nThe call was made by {result.test}")
        if failures and self.known:
            pytest.xfail(self.known)
        if failures:
            raise CompileCheckFailed("\n\n".join(failures), self.row.reports[0], self.row.findings)
        if self.row.verdict == UNCHECKED:
            pytest.skip(self.row.detail)

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """Return the report without a traceback, because a traceback would only point to this file."""
        return str(excinfo.value) if isinstance(excinfo.value, CompileCheckFailed) else super().repr_failure(excinfo)

    def reportinfo(self) -> tuple[Path, int | None, str]:
        """Return the location that pytest shows for the test."""
        return self.config.rootpath, None, self.name
