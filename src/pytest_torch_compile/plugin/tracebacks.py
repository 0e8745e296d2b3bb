"""Remove this plugin's frames from the tracebacks that pytest shows for failed checks."""

from __future__ import annotations

from types import CodeType, TracebackType
from typing import Any

import pytest

from .. import __name__ as PACKAGE
from ..findings import CompileCheckFailed, CompileUsageError


def begin(config: pytest.Config) -> None:
    """Hide the frames unless ``--full-trace`` is set."""
    if not config.getoption("fulltrace", False):
        config.pluginmanager.register(OwnFramesHidden(), "torch-compile-tracebacks")


class OwnFramesHidden:
    """The hook that shortens the tracebacks of failed checks and usage errors, and leaves all other tracebacks
    unchanged. The hook is registered unless ``--full-trace`` is set.
    """

    def pytest_runtest_makereport(self, item: pytest.Item, call: pytest.CallInfo[Any]) -> None:
        """Shorten the tracebacks of a check's exceptions before pytest formats them."""
        error = call.excinfo.value if call.excinfo else None
        if not isinstance(error, (CompileCheckFailed, CompileUsageError)):
            return
        # The tests of a CompileSuite are this plugin's code, but pytest shortens a traceback from the test on.
        test = getattr(getattr(item, "obj", None), "__code__", None)
        error.__traceback__ = without_own_frames(error.__traceback__, test) or error.__traceback__
        call.excinfo = pytest.ExceptionInfo.from_exception(error)
        cause = error.__cause__
        while cause is not None:
            cause.__traceback__ = without_own_frames(cause.__traceback__)
            cause = cause.__cause__


def without_own_frames(trace: TracebackType | None, test: CodeType | None = None) -> TracebackType | None:
    """Return the traceback without the plugin's frames and the contextlib frames that lead to them. The frame of the
    test is kept.
    """
    entries = []
    while trace is not None:
        entries.append(trace)
        trace = trace.tb_next
    shortened: TracebackType | None = None
    within = False  # whether the frame that this frame called was removed
    for entry in reversed(entries):
        package = str(entry.tb_frame.f_globals.get("__name__", "")).split(".")[0]
        within = package == PACKAGE or (within and package == "contextlib")
        if not within or entry.tb_frame.f_code is test:
            shortened = TracebackType(shortened, entry.tb_frame, entry.tb_lasti, entry.tb_lineno)
    return shortened
