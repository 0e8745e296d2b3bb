"""``--compile-isolate``: each test that uses the plugin runs in a process of its own."""

from __future__ import annotations

import pytest

from . import payload
from .in_child import child_for


def run(item: pytest.Item) -> list[pytest.TestReport]:
    """Run one test in a fresh pytest and give its reports; a child that dies is a failed test."""
    ended = child_for(item).run()
    hook = item.config.hook
    reports = [hook.pytest_report_from_serializable(config=item.config, data=data) for data in ended.results]
    if item.config.getoption("capture", "") == "no":
        print(ended.output)
    # A process that dies in the test has reported its setup already.
    if not any(report.when == "teardown" for report in reports):
        text = f"the process of {item.nodeid} ended with {ended.status} and no report\n{ended.output}"
        died = pytest.TestReport(item.nodeid, item.location, {}, "failed", text, "call")
        payload.attach(item, died, always=True)
        reports.append(died)
    return reports
