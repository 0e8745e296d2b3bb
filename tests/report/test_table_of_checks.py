"""The table at the end of a session: rows that can be told apart, and failures that were expected."""

from __future__ import annotations

from pytest_torch_compile.report.table_of_checks import COLUMNS, expected, table, usage_error


def test_failure_that_was_expected_says_so():
    failed = {"verdict": "graph-break", "kinds": "graph-break"}
    assert expected(failed, "known failure") == {**failed, "verdict": "known failure (graph-break)"}
    passed = {"verdict": "pass, 1 not compared", "kinds": ""}
    assert expected(passed, "known failure") == passed


def test_a_usage_error_is_a_row_without_figures():
    _, shown = table([usage_error("tests/test_a.py::test_a")], 120).splitlines()
    assert shown.split() == ["tests/test_a.py::test_a", *["-"] * (len(COLUMNS) - 2), "usage-error"]
