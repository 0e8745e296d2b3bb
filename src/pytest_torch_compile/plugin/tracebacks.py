"""Remove this plugin's frames from the tracebacks that pytest shows for failed checks."""

from __future__ import annotations

import sys
from collections.abc import Generator, Iterator
from types import CodeType, TracebackType
from typing import Any

import pytest

from .. import __name__ as PACKAGE
from ..findings import CompileCheckFailed, CompileUsageError

# Packages between this plugin and the code that called it: they call hooks and fixtures, create dataclasses, and so on.
_BETWEEN = frozenset({*sys.stdlib_module_names, "_pytest", "pluggy"})

_OURS = (CompileCheckFailed, CompileUsageError)


def begin(config: pytest.Config) -> None:
    """Hide the frames unless ``--full-trace`` is set."""
    if not config.getoption("fulltrace", False):
        config.pluginmanager.register(OwnFramesHidden(), "torch-compile-tracebacks")
        config.pluginmanager.register(MessageAlone(), "torch-compile-messages")


class OwnFramesHidden:
    """The hook that shortens the tracebacks of failed checks and usage errors, and leaves all other tracebacks
    unchanged. The hook is registered unless ``--full-trace`` is set.
    """

    def pytest_runtest_makereport(self, item: pytest.Item, call: pytest.CallInfo[Any]) -> None:
        """Shorten the tracebacks of a check's exceptions before pytest formats them."""
        error = call.excinfo.value if call.excinfo else None
        if not isinstance(error, _OURS):
            return
        error.__traceback__ = without_own_frames(error.__traceback__, _code_of(item)) or error.__traceback__
        call.excinfo = pytest.ExceptionInfo.from_exception(error)
        cause = error.__cause__
        while cause is not None:
            cause.__traceback__ = without_own_frames(cause.__traceback__)
            cause = cause.__cause__


class MessageAlone:
    """The hook that shows no traceback of an exception that no user code raised, for example because a marker or an
    option is wrong. The hook is registered unless ``--full-trace`` is set.
    """

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[Any]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Replace the traceback with the exception's message, and its place with that of the test."""
        report = yield
        if call.excinfo is None or not report.failed or not isinstance(call.excinfo.value, _OURS):
            return report
        if isinstance(report.longrepr, str):  # the test has its own way to show a failure
            return report
        from .._torch.user_lines import is_own

        codes = [entry.tb_frame.f_code for entry in _entries(call.excinfo.tb)]
        if not any(code is _code_of(item) or is_own(code.co_filename) for code in codes):
            report.longrepr = shown = call.excinfo.getrepr(
                style="short", tbfilter=lambda error: error.traceback.filter(lambda entry: False), chain=False
            )
            if shown.reprcrash is not None:
                file, line, _ = item.reportinfo()
                shown.reprcrash.path, shown.reprcrash.lineno = str(file), (line or 0) + 1
        return report


def _code_of(item: pytest.Item) -> CodeType | None:
    """Return the code of a test. The tests of a CompileSuite are this plugin's code, but they are shown like others."""
    return getattr(getattr(item, "obj", None), "__code__", None)


def without_own_frames(trace: TracebackType | None, test: CodeType | None = None) -> TracebackType | None:
    """Return the traceback without the plugin's frames, and without the frames of pytest and of the standard library
    that lead to them. The frame of the test is kept.
    """
    shortened: TracebackType | None = None
    within = False  # whether the frame that this frame called was removed
    for entry in reversed(list(_entries(trace))):
        package = str(entry.tb_frame.f_globals.get("__name__", "")).split(".")[0]
        within = package == PACKAGE or (within and package in _BETWEEN)
        if not within or entry.tb_frame.f_code is test:
            shortened = TracebackType(shortened, entry.tb_frame, entry.tb_lasti, entry.tb_lineno)
    return shortened


def _entries(trace: TracebackType | None) -> Iterator[TracebackType]:
    while trace is not None:
        yield trace
        trace = trace.tb_next
