"""Find the tests of a session that did not pass. Such tests do not change the baselines."""

from __future__ import annotations

import pytest


def is_repeated(report: pytest.TestReport) -> bool:
    """Return whether pytest-rerunfailures repeats the attempt to which a report belongs. The next attempt decides."""
    return not (report.passed or report.failed or report.skipped)


def not_passed(terminalreporter: pytest.TerminalReporter) -> dict[str, str]:
    """Return the tests that did not pass, each with the reason.

    A test passed if its setup, its call and its teardown all passed. If a subtest fails, its test failed too. An
    attempt that pytest-rerunfailures repeats does not count.
    """
    reasons: dict[str, str] = {}
    for reports in terminalreporter.stats.values():
        for report in reports:
            if not isinstance(report, pytest.TestReport):
                continue
            if report.failed:
                reasons[report.nodeid] = "the test failed"
            elif report.skipped and type(report) is pytest.TestReport:  # a test may skip some of its subtests
                expected = hasattr(report, "wasxfail")
                reasons.setdefault(report.nodeid, f"the test {'failed as expected' if expected else 'was skipped'}")
    return reasons
