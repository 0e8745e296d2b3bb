"""Record the checks of each test, send them with the test's report, and show a table of all checks at the end."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

import pytest

from ..events import listening
from ..findings import CompileUsageError
from ..report import table_of_checks
from ..report.results import check_entry
from . import payload, unwritten, usage

if TYPE_CHECKING:
    from ..findings import CompileReport


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None, Any, Any]:
    """Begin the test's record, and record each check that the test's fixtures run."""
    payload.begin(item)
    with _recording(item):
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, Any, Any]:
    """Record each check that the test runs, and show progress."""
    progress = usage.showing_progress(item) if usage.uses_plugin(item) else nullcontext()
    with _recording(item), progress:
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, Any, Any]:
    """Record each check that ends while the test's fixtures are torn down."""
    with _recording(item):
        return (yield)


def _recording(item: pytest.Item) -> AbstractContextManager[None]:
    """Record each check that ends inside the ``with`` block."""

    def hear(report: CompileReport) -> None:
        observed, noted = report.to_dict(), payload.of(item)
        if not usage.shows_existing(item):  # checks of --compile-existing have a separate table
            noted.rows.append(table_of_checks.row(item.nodeid, observed))
        noted.checks.append(check_entry(observed, item.config.rootpath))

    return listening(hear)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Attach the recorded checks and measurements to the report."""
    report = yield
    wrong = call.excinfo is not None and isinstance(call.excinfo.value, CompileUsageError)
    payload.attach(item, report, always=usage.uses_plugin(item), usage_error=wrong and report.failed)
    return report


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print a row for each check."""
    rows: list[dict[str, str]] = []
    for report, sent in payload.received(terminalreporter):
        expected = report.skipped and hasattr(report, "wasxfail")
        rows += [table_of_checks.expected(row, "known failure") for row in sent.rows] if expected else sent.rows
    if not rows:
        return
    terminalreporter.section("torch.compile checks")
    with unwritten.saying(terminalreporter, "the table of checks could not be shown"):
        # Write each line separately: if the terminal cannot encode a character, pytest escapes the whole text of the
        # call, including its newlines.
        for line in table_of_checks.table(rows, max(120, terminalreporter._tw.fullwidth)).splitlines():
            terminalreporter.write_line(line)
