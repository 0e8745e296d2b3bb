"""Hearing of calls without changing anything that is called: nothing of the package or of torch is patched.

From Python 3.12 on ``sys.monitoring`` reports the code that is listened for, and no other code is slowed down. Before,
a profile function hears of every call.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from types import CodeType, FrameType
from typing import Any

Hear = Callable[[FrameType], None]
_TOOL = "pytest-torch-compile"


class Taken(RuntimeError):
    """Another tool listens already, such as a profiler."""


class Noticing:
    """Hears of each call of some code while a test runs. ``hear`` gets the frame before its first line."""

    def __init__(self, is_known: Callable[[CodeType], bool], hear: Hear) -> None:
        self._is_known = is_known
        self._hear = hear

    @contextmanager
    def listening(self, codes: Iterable[CodeType]) -> Iterator[None]:
        """Listen in the body.

        Raises:
            Taken: another tool listens.
        """
        body = self._monitoring(codes) if hasattr(sys, "monitoring") else self._profiling()
        with body:
            yield

    @contextmanager
    def _profiling(self) -> Iterator[None]:
        if sys.getprofile() is not None:
            raise Taken("a profiler is active")
        is_known, hear = self._is_known, self._hear

        def note(frame: FrameType, event: str, argument: Any) -> None:
            if event == "call" and is_known(frame.f_code):
                sys.setprofile(None)
                try:
                    # Inside a profile function Python calls no other one, and a check needs one of its own.
                    sys.call_tracing(hear, (frame,))
                finally:
                    sys.setprofile(note)

        sys.setprofile(note)
        try:
            yield
        finally:
            if sys.getprofile() is note:
                sys.setprofile(None)

    @contextmanager
    def _monitoring(self, codes: Iterable[CodeType]) -> Iterator[None]:
        monitoring: Any = sys.monitoring  # type: ignore[attr-defined]
        tool = next((number for number in (4, 3) if monitoring.get_tool(number) is None), None)
        if tool is None:
            raise Taken("other tools use sys.monitoring")
        listened = list(codes)
        hear, busy = self._hear, [False]

        def note(code: CodeType, offset: int) -> None:
            if busy[0]:
                return
            busy[0] = True
            try:
                sys.call_tracing(hear, (sys._getframe(1),))
            finally:
                busy[0] = False

        monitoring.use_tool_id(tool, _TOOL)
        try:
            monitoring.register_callback(tool, monitoring.events.PY_START, note)
            for code in listened:
                monitoring.set_local_events(tool, code, monitoring.events.PY_START)
            yield
        finally:
            for code in listened:
                monitoring.set_local_events(tool, code, monitoring.events.NO_EVENTS)
            monitoring.register_callback(tool, monitoring.events.PY_START, None)
            monitoring.free_tool_id(tool)
