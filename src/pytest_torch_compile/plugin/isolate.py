"""``--compile-isolate``: run each test that uses the plugin in a separate process."""

from __future__ import annotations

import signal
import sys

import pytest

from .. import settings
from .._torch.stuck import main_frames, place_of, stack_text
from ..child import Ended
from . import payload, termination, usage
from .in_child import child_for, is_child

# The default time limit for a test, in seconds. The process has additional time to start and collect the test, and for
# code outside checks if the limit is that of a single check.
SECONDS = 1800.0
TO_COLLECT = 60.0
OUTSIDE_CHECKS = 60.0


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> bool | None:
    """Under ``--compile-isolate``, run the test in a separate process."""
    if not settings.current.isolate or is_child(item.config) or not usage.uses_plugin(item):
        return None
    if usage.shows_existing(item):
        return None
    if not hasattr(item.config, "workerinput"):
        termination.end_in_order(item.config)
    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    try:
        reports = run(item)
    except BaseException:  # for example, because of Ctrl-C
        # Without isolation, the setup would have been reported by now, so the report would contain the test.
        begun = pytest.TestReport(item.nodeid, item.location, {}, "passed", None, "setup")
        payload.attach(item, begun, always=True)
        item.ihook.pytest_runtest_logreport(report=begun)
        raise
    for report in reports:
        item.ihook.pytest_runtest_logreport(report=report)
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    return True


def run(item: pytest.Item) -> list[pytest.TestReport]:
    """Run one test in a fresh pytest process and return its reports. If the process dies or hangs, the test fails."""
    seconds = (settings.current.timeout or SECONDS) + OUTSIDE_CHECKS
    # If the test hangs in the child, pytest-timeout raises its exception in this process, and ``Child.run`` then
    # terminates the child.
    ended = child_for(item).run(seconds=seconds, to_start=TO_COLLECT, too_long=(pytest.fail.Exception,))
    hook = item.config.hook
    sent = [hook.pytest_report_from_serializable(config=item.config, data=data) for data in ended.results]
    reports = [report for report in sent if isinstance(report, pytest.TestReport)]
    if item.config.getoption("capture", "") == "no":
        encoding = sys.stdout.encoding or "utf-8"
        print(ended.output.encode(encoding, "replace").decode(encoding))
    # A child that dies during a test has already reported the test's setup.
    if not any(report.when == "teardown" for report in reports):
        died = pytest.TestReport(item.nodeid, item.location, {}, "failed", _why(item.nodeid, ended), "call")
        payload.attach(item, died, always=True)
        reports.append(died)
    return reports


def _why(test: str, ended: Ended) -> str:
    """Return a message that describes how the child ended or, if it hung, the code that it was running."""
    if ended.status is None:
        frames = main_frames(ended.stacks)
        place = place_of(frames)
        where = f"it hung at {place.shown()}" if place else "it hung at an unknown location"
        return f"the process running {test} did not finish: {where}\n{stack_text(frames)}\n{ended.output}"
    how = f"exited with status {ended.status} without a report"
    if ended.status < 0:
        name = signal.Signals(-ended.status).name
        how = f"was killed by {name}"
        if name == "SIGKILL":
            how += ", possibly by the kernel because memory ran out"
    if "std::bad_alloc" in ended.output:
        how += ": it ran out of memory"
    return f"the process running {test} {how}\n{ended.output}"
