"""Observe calls without patching anything in the package or in torch.

On Python 3.12 and later, ``sys.monitoring`` reports only calls to the selected code objects, and does not slow down
other code. On earlier versions, a trace function is notified of every call to a Python function, but not of the lines
that the function executes. If coverage is measured, a trace function is already in use, so a profile function is used
instead. Trace functions and profile functions slow down all Python code. Calls in other threads are not observed.
"""

from __future__ import annotations

import functools
import sys
import threading
from collections.abc import Callable, Container, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from types import CodeType, FrameType
from typing import Any

import torch

from .._torch.profile_function import profile_function
from ..findings import CompileUsageError
from .run_time import now

Hear = Callable[[FrameType], None]
_TOOL = "pytest-torch-compile"


class Taken(RuntimeError):
    """Raised when calls cannot be observed because another tool, such as a profiler, already observes calls."""


class CallObserver:
    """An observer of each call to the selected code objects while a test runs.

    ``known`` contains the ids of the selected code objects, and ``modules`` contains the names of their modules.
    ``hear`` is called with the frame of a call before the frame's first line runs. ``hear`` is not called if the
    caller's module is inside the package, according to ``is_inside``. Most calls come from inside the package, so they
    must be ignored quickly.
    """

    def __init__(
        self, known: Container[int], modules: Container[str], is_inside: Callable[[str], bool], hear: Hear
    ) -> None:
        self._known = known
        self._modules = modules
        self._is_inside = functools.cache(is_inside)
        self._hear = hear
        # While a test runs compiled code, dynamo would otherwise compile the plugin's own functions as well.
        self._heard = torch.compiler.disable(self._handle)
        self._events = 0
        self._seconds_per_event: float | None = None
        self.problem = ""

    @property
    def seconds(self) -> float:
        """The estimated number of seconds by which observing calls has slowed the tests down. The estimate is 0 on
        Python 3.12 and later, where only the selected code becomes slower.
        """
        return self._events * (self._seconds_per_event or 0.0)

    @contextmanager
    def listening(self, codes: Callable[[], Iterable[CodeType]]) -> Iterator[None]:
        """Observe calls inside the ``with`` block.

        Raises:
            Taken: If another tool already observes calls.
        """
        if hasattr(sys, "monitoring"):
            body = self._monitoring(codes())
        else:
            observed = self._tracing if sys.gettrace() is None else self._profiling
            if self._seconds_per_event is None:
                self._seconds_per_event = self._measured(observed)
            body = observed()
        with body:
            yield

    def _measured(self, observed: Callable[[], AbstractContextManager[None]]) -> float:
        """Return the seconds by which one event slows a program down, measured on short calls."""
        without = min(_seconds_of_calls() for _ in range(3))
        before = self._events
        with observed():
            timed = [_seconds_of_calls() for _ in range(3)]
        events, self._events = self._events - before, before
        return max(0.0, min(timed) - without) * len(timed) / max(1, events)

    def _concerns(self, frame: FrameType) -> bool:
        """Return whether to handle a call to a function in one of the modules. The code is compared last, because
        reading ``f_code`` and calling ``id`` raise audit events, which are slow once there is an audit hook (see
        ``undisturbed``).
        """
        return not self._is_from_inside(frame) and id(frame.f_code) in self._known

    def _is_from_inside(self, frame: FrameType) -> bool:
        caller = frame.f_back
        return caller is not None and self._is_inside(str(caller.f_globals.get("__name__", "")))

    def _handle(self, frame: FrameType) -> None:
        """Pass a frame to ``hear``. Suspend any profiler meanwhile, so that the profiler does not record the plugin's
        own work.
        """
        try:
            with profile_function(None):
                # Python does not call trace functions while a trace function runs, but a check uses a trace function.
                sys.call_tracing(self._hear, (frame,))
        except CompileUsageError as error:
            self.problem = str(error)

    @contextmanager
    def _tracing(self) -> Iterator[None]:
        modules = self._modules

        def note(frame: FrameType, event: str, argument: Any) -> None:
            self._events += 1
            if str(frame.f_globals.get("__name__")) in modules and self._concerns(frame):
                sys.settrace(None)
                try:
                    self._heard(frame)
                finally:
                    sys.settrace(note)

        sys.settrace(note)
        try:
            yield
        finally:
            if sys.gettrace() is note:  # the test may have set another trace function, and not removed it
                sys.settrace(None)

    @contextmanager
    def _profiling(self) -> Iterator[None]:
        if sys.getprofile() is not None:
            raise Taken("calls cannot be observed while coverage and a profiler are both active")
        modules = self._modules

        def note(frame: FrameType, event: str, argument: Any) -> None:
            self._events += 1
            if event == "call" and str(frame.f_globals.get("__name__")) in modules and self._concerns(frame):
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
        # The other ids are reserved for debuggers, coverage, profilers and optimizers.
        tool = next((number for number in (4, 3) if monitoring.get_tool(number) is None), None)
        if tool is None:
            raise Taken("calls cannot be observed while other tools use sys.monitoring")
        listened = list(codes)
        # A check calls the observed code itself, and these calls must not start another check.
        busy, thread = [False], threading.get_ident()

        def note(code: CodeType, offset: int) -> None:
            if busy[0] or threading.get_ident() != thread:
                return
            frame = sys._getframe(1)
            if self._is_from_inside(frame):
                return
            busy[0] = True
            try:
                self._heard(frame)
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


def _seconds_of_calls() -> float:
    """Return the seconds that 20,000 calls of a short function take."""
    began = now()
    for number in range(20_000):
        _short(number)
    return now() - began


def _short(number: int) -> int:
    held = {"a": number, "b": number + 1}
    return max(held["a"], 3) if number % 2 else held["b"]
