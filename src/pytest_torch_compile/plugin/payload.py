"""Record what a test's checks observe while the test runs, and send this record with the test's report."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import pytest

from ..report import document, results, table_of_checks
from . import known_failure
from .in_child import is_child

_ATTRIBUTE = "torch_compile"
_KEY: pytest.StashKey[Payload] = pytest.StashKey()
_LISTS = ("checks", "rows", "timings", "plans")
_SENT: pytest.StashKey[dict[str, int]] = pytest.StashKey()  # the length of each list when the last report was made


@dataclass
class Payload:
    """The record of one test. The record contains only JSON values, because pytest-xdist workers and isolated processes
    send the record to another process.
    """

    checks: list[dict[str, Any]] = field(default_factory=list)  # one entry of the report for each check
    rows: list[dict[str, str]] = field(default_factory=list)  # one row of the terminal's table for each check
    timings: list[dict[str, Any]] = field(default_factory=list)  # the result of each call of compile_benchmark
    plans: list[dict[str, Any]] = field(default_factory=list)  # the results of compile_benchmark under --compile-plan
    structure: dict[str, Any] | None = None  # the test's entry in the structure baseline, and its environment
    accepted: dict[str, Any] | None = None  # breaks and recompiles that exceed the test's budget
    environment: dict[str, Any] = field(default_factory=dict)  # the environment of the process
    usage_error: bool = False  # whether the test called the plugin incorrectly


def begin(item: pytest.Item) -> None:
    """Discard the record of an earlier run of the same test, which exists if another plugin reruns the test."""
    if _KEY in item.stash:
        del item.stash[_KEY]
    item.stash[_SENT] = dict.fromkeys(_LISTS, 0)


def of(item: pytest.Item) -> Payload:
    """Return the record of the running test."""
    return item.stash.setdefault(_KEY, Payload())


def attach(item: pytest.Item, report: pytest.TestReport, *, always: bool, usage_error: bool = False) -> None:
    """Attach the test's record to the report of a phase (setup, call or teardown). If the test has no record, attach an
    empty record only if ``always`` is true.

    Each report carries only what was recorded since the test's previous report. Otherwise, checks would be counted
    again in the report of the next phase, and in the report of each subtest. A usage error is attached to the report of
    the phase that raised it. If the teardown decides about a known failure, the report of the teardown carries all, so
    that nobody takes the test for one that passed.
    """
    noted = item.stash.get(_KEY, None)  # the record is missing if the test does not use the plugin
    if always or noted or usage_error:
        waits = known_failure.is_open(report)
        payload = asdict(_unsent(item, noted, report) if noted and not waits else Payload())
        if usage_error:
            payload |= {"usage_error": True, "rows": [*payload["rows"], table_of_checks.usage_error(report.nodeid)]}
        vars(report)[_ATTRIBUTE] = payload | document.clean(
            {"checks": payload["checks"], "environment": results.environment()}
        )


def _unsent(item: pytest.Item, noted: Payload, report: pytest.TestReport) -> Payload:
    """Return what was recorded since the test's previous report."""
    lists: dict[str, list[Any]] = {name: getattr(noted, name) for name in _LISTS}
    sent = item.stash[_SENT]
    item.stash[_SENT] = {name: len(recorded) for name, recorded in lists.items()}
    # The structure belongs to the outcome of the call phase: a teardown that passes says nothing about the counts.
    structure = noted.structure if report.when == "call" else None
    unsent: dict[str, Any] = {name: recorded[sent[name] :] for name, recorded in lists.items()}
    return replace(noted, structure=structure, **unsent)


def read(report: pytest.TestReport | pytest.CollectReport) -> Payload | None:
    """Return the record attached to a report, or None."""
    sent = getattr(report, _ATTRIBUTE, None)
    return Payload(**sent) if sent is not None else None


def received(terminalreporter: pytest.TerminalReporter) -> Iterator[tuple[pytest.TestReport, Payload]]:
    """Yield a (report, record) pair for each test report that has a record. Yield nothing in a child process or a
    pytest-xdist worker, because the parent process shows and stores the records.
    """
    config = terminalreporter.config
    if not (is_child(config) or hasattr(config, "workerinput")):
        for reports in terminalreporter.stats.values():
            for report in reports:
                if isinstance(report, pytest.TestReport) and (payload := read(report)):
                    yield report, payload
