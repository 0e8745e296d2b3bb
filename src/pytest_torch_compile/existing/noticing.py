"""Observe calls without patching anything in the package or in torch.

On Python 3.12 and later, ``sys.monitoring`` reports only calls to the selected code objects, and does not slow down
other code. On earlier versions, a trace function is notified of every call to a Python function, but not of the lines
that the function executes. If coverage is measured, a trace function is already in use, so a profile function is used
instead. Calls in other threads are not observed.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Container, Iterable, Iterator
from contextlib import contextmanager
from types import CodeType, FrameType
from typing import Any

import torch

from .._torch.profile_function import profile_function
from ..findings import CompileUsageError

Hear = Callable[[FrameType], None]
_TOOL = "pytest-torch-compile"


class Taken(RuntimeError):
    """Raised when calls cannot be observed because another tool, such as a profiler, already observes calls."""


class Noticing:
    """An observer of each call to the selected code objects while a test runs.

    ``known`` contains the ids of these code objects. ``hear`` is called with the frame of a call before the frame's
    first line runs.
    """

    def __init__(self, known: Container[int], hear: Hear) -> None:
        self._known = known
        self._hear = hear
        # While a test runs compiled code, dynamo would otherwise compile the plugin's own functions as well.
        self._heard = torch.compiler.disable(self._handle)
        self.problem = ""

    @contextmanager
    def listening(self, codes: Callable[[], Iterable[CodeType]]) -> Iterator[None]:
        """Observe calls inside the ``with`` block.

        Raises:
            Taken: If another tool already observes calls.
        """
        if hasattr(sys, "monitoring"):
            body = self._monitoring(codes())
        else:
            body = self._tracing() if sys.gettrace() is None else self._profiling()
        with body:
            yield

    def _handle(self, frame: FrameType) -> None:
        """Pass a frame to ``hear``. Any profiler is suspended, so that the profiler does not record the plugin's own
        work.
        """
        try:
            with profile_function(None):
                # Python does not call trace functions while a trace function runs, but a check uses a trace function.
                sys.call_tracing(self._hear, (frame,))
        except CompileUsageError as error:
            self.problem = str(error)

    @contextmanager
    def _tracing(self) -> Iterator[None]:
        known = self._known

        def note(frame: FrameType, event: str, argument: Any) -> None:
            if id(frame.f_code) in known:
                sys.settrace(None)
                try:
                    self._heard(frame)
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
            raise Taken("calls cannot be observed while coverage and a profiler are both active")
        known = self._known

        def note(frame: FrameType, event: str, argument: Any) -> None:
            if event == "call" and id(frame.f_code) in known:
                self._heard(frame)

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
            raise Taken("calls cannot be observed while other tools use sys.monitoring")
        listened = list(codes)
        busy, thread = [False], threading.get_ident()

        def note(code: CodeType, offset: int) -> None:
            if busy[0] or threading.get_ident() != thread:
                return
            busy[0] = True
            try:
                self._heard(sys._getframe(1))
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
