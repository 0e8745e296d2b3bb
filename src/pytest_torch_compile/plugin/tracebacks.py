"""What pytest shows of a failed check: the user's own line, without the frames of this package."""

from __future__ import annotations

from types import TracebackType
from typing import Any

import pytest

from .. import __name__ as PACKAGE
from ..findings import CompileCheckFailed, CompileUsageError


class OwnFramesHidden:
    """Registered unless ``--full-trace`` asks for every frame. An error of any other type keeps all of its frames."""

    def pytest_runtest_makereport(self, item: pytest.Item, call: pytest.CallInfo[Any]) -> None:
        """Shorten the tracebacks of what a check says, before a report is made of them."""
        error = call.excinfo.value if call.excinfo else None
        if not isinstance(error, (CompileCheckFailed, CompileUsageError)):
            return
        error.__traceback__ = without_own_frames(error.__traceback__) or error.__traceback__
        call.excinfo = pytest.ExceptionInfo.from_exception(error)
        cause = error.__cause__
        while cause is not None:
            cause.__traceback__ = without_own_frames(cause.__traceback__)
            cause = cause.__cause__


def without_own_frames(trace: TracebackType | None) -> TracebackType | None:
    """The traceback without our frames, and those of contextlib that lead to ours."""
    entries = []
    while trace is not None:
        entries.append(trace)
        trace = trace.tb_next
    own = [_module(entry) == PACKAGE for entry in entries]
    for number, entry in enumerate(entries[:-1]):
        own[number] |= own[number + 1] and _module(entry) == "contextlib"
    kept = [entry for entry, ours in zip(entries, own, strict=True) if not ours]
    made: TracebackType | None = None
    for entry in reversed(kept):
        made = TracebackType(made, entry.tb_frame, entry.tb_lasti, entry.tb_lineno)
    return made


def _module(entry: TracebackType) -> str:
    """The top package of the code that a frame runs."""
    return str(entry.tb_frame.f_globals.get("__name__", "")).split(".")[0]
