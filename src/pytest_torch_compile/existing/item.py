"""A target as a test of its own: it shows what its checks found while the ordinary tests ran."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ..check import acceptance
from ..events import announce
from ..findings import CompileCheckFailed
from .verdicts import UNCHECKED, Row


class ExistingItem(pytest.Item):
    """Passes, fails or is skipped as the checks of one target did."""

    shows_existing = True  # it was checked already: it needs no process of its own

    def __init__(self, *, row: Row, known: str = "", **keywords: Any) -> None:
        super().__init__(**keywords)
        self.row = row
        self.known = known

    @classmethod
    def of(cls, session: pytest.Session, row: Row, known: str = "") -> ExistingItem:
        """The test of a row. ``known`` says why it is expected to fail."""
        return cls.from_parent(session, name=row.test, nodeid=row.test, row=row, known=known)

    def runtest(self) -> None:
        """Tell of each check, and fail with all that they found."""
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
        """The report without a traceback, which would lead here."""
        return str(excinfo.value) if isinstance(excinfo.value, CompileCheckFailed) else super().repr_failure(excinfo)

    def reportinfo(self) -> tuple[Path, int | None, str]:
        """Where a reader looks for it."""
        return self.config.rootpath, None, self.name
