"""Hearing of calls without changing anything that is called: nothing of the package or of torch is patched.

From Python 3.12 on ``sys.monitoring`` reports the code that is listened for, and no other code is slowed down. Before,
a trace function hears of every call of a Python function, and of no line in it. Where coverage is measured the place of
the trace function is taken, and a profile function hears of them. Calls in other threads are not heard of.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Container, Iterable, Iterator
from contextlib import contextmanager
from types import CodeType, FrameType
from typing import Any

Hear = Callable[[FrameType], None]
_TOOL = "pytest-torch-compile"


class Taken(RuntimeError):
    """Another tool listens already, such as a profiler."""


class Noticing:
    """Hears of each call of some code while a test runs.

    ``known`` are the ids of the code objects. ``hear`` gets the frame before its first line.
    """

    def __init__(self, known: Container[int], hear: Hear) -> None:
        self._known = known
        self._hear = hear

    @contextmanager
    def listening(self, codes: Iterable[CodeType]) -> Iterator[None]:
        """Listen in the body.

        Raises:
            Taken: another tool listens.
        """
        if hasattr(sys, "monitoring"):
            body = self._monitoring(codes)
        else:
            body = self._tracing() if sys.gettrace() is None else self._profiling()
        with body:
            yield

    @contextmanager
    def _tracing(self) -> Iterator[None]:
        known, hear = self._known, self._hear

        def note(frame: FrameType, event: str, argument: Any) -> None:
            if id(frame.f_code) in known:
                sys.settrace(None)
                try:
                    # Inside a trace function Python calls no other one, and a check needs one of its own.
                    sys.call_tracing(hear, (frame,))
                finally:
                    sys.settrace(note)

        sys.settrace(note)
        try:
            yield
        finally:
            if sys.gettrace() is note:
                sys.settrace(None)

    @contextmanager
    def _profiling(self) -> Iterator[None]:
        if sys.getprofile() is not None:
            raise Taken("no call can be heard of, as coverage is measured and a profiler is active")
        known, hear = self._known, self._hear

        def note(frame: FrameType, event: str, argument: Any) -> None:
            if event == "call" and id(frame.f_code) in known:
                sys.setprofile(None)
                try:
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
        hear, busy, thread = self._hear, [False], threading.get_ident()

        def note(code: CodeType, offset: int) -> None:
            if busy[0] or threading.get_ident() != thread:
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
