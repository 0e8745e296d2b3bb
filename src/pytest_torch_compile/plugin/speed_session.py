"""At the end of a session, show the results of the speed tests and, if requested, update the baselines."""

from __future__ import annotations

import pytest

from .. import settings
from ..report.safe_text import terminal
from . import collected_tests, payload, unwritten


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Print a row for each speed test and, if requested, update the baselines."""
    timings = [timing for _, sent in payload.received(terminalreporter) for timing in sent.timings]
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
            collected=collected,
            selected=selected,
        )
