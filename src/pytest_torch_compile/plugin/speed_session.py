"""Require pytest-benchmark for speed tests. At the end of a session, show their results and, if requested, update the
baselines.
"""

from __future__ import annotations

import sys
from importlib.util import find_spec

import pytest

from .. import settings
from ..findings import CompileUsageError
from ..report.safe_text import terminal
from . import collected_tests, outcomes, payload, unwritten, usage


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Refuse a speed test without pytest-benchmark. pytest would only say that there is no fixture ``benchmark``."""
    benchmark = sys.modules.get("pytest_benchmark.plugin")
    is_loaded = benchmark is not None and item.config.pluginmanager.is_registered(benchmark)
    if is_loaded or not usage.is_speed_test(item):
        return
    if find_spec("pytest_benchmark"):
        why = "which is disabled: remove -p no:benchmark, or load it with -p pytest_benchmark.plugin"
    else:
        why = "which is not installed: pip install 'pytest-torch-compile[speed]'"
    raise CompileUsageError(f"{usage.SPEED_FIXTURE} needs pytest-benchmark, {why}")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Print a row for each speed test and, if requested, update the baselines."""
    received = payload.received(terminalreporter)
    timings = [timing for report, sent in received if not outcomes.is_repeated(report) for timing in sent.timings]
    if not timings:
        return
    terminalreporter.section("torch.compile speed")
    with unwritten.saying(terminalreporter, "the summary of the speed tests is incomplete"):
        from ..speed import summary

        collected, selected = collected_tests.speed_tests(config)
        summary.finish(
            lambda line, **colors: terminalreporter.write_line(terminal(line), **colors),
            timings,
            settings.below_root(config.rootpath, settings.current.baselines),
            say_not_written=lambda line: unwritten.say(terminalreporter, line),
            update=settings.current.update_baselines,
            not_passed=outcomes.not_passed(terminalreporter),
            collected=collected,
            selected=selected,
        )
