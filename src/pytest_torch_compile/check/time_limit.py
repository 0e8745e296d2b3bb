"""A time limit for a check: report the line that hangs, and interrupt the check if possible."""

from __future__ import annotations

import ctypes
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from types import FrameType

from .. import advice, settings
from .._torch.stuck import frames_of, place_of, stack_text
from ..findings import Finding
from ..observation import Location

# Seconds between interruptions. One interruption may not be enough: the checked code may catch the exception, and most
# C code must return to Python before the exception is raised.
AGAIN_SECONDS = 10.0
# An exception inside one of these functions would leave a context manager, such as one of torch's modes, half entered
# or half exited, which would change the behavior of all later code. So an interruption in these functions is postponed,
# but not forever, because the function itself may hang.
_CHANGING = frozenset({"__enter__", "__exit__"})
_INNERMOST = 20
SOON_SECONDS = 0.05
_MOST_POSTPONED = 200
# The signal also interrupts C code that sleeps or waits for a lock or a file. SIGALRM is left to pytest-timeout.
SIGNAL = signal.SIGUSR2
_limited = threading.local()


class TimeIsUp(BaseException):
    """Raised when a check takes too long. ``TimeIsUp`` is not derived from ``Exception``, so that ``except Exception``
    in the checked code does not catch it.
    """


class TimeLimit:
    """The time limit for one check. If the check exceeds the limit, ``findings`` contains a finding."""

    def __init__(self, seconds: float) -> None:
        self.findings: list[Finding] = []
        self._seconds = seconds
        self._thread = threading.get_ident()
        self._done = threading.Event()
        self._lock = threading.Lock()
        self._is_postponed = False
        self._postponed = 0

    def watch(self) -> None:
        """Wait, in a separate thread, until the limit is reached, and then interrupt the check."""
        wait, has_interrupted = self._seconds, False
        while not self._done.wait(wait):
            if has_interrupted and not self._is_postponed:
                wait, has_interrupted = AGAIN_SECONDS, False
                continue
            with self._lock:
                if self._done.is_set():
                    return
                frames = frames_of(sys._current_frames().get(self._thread))
                if not self.findings:
                    self.findings = [timeout_finding(frames, self._seconds)]
                elif not self._is_postponed:
                    self._say(place_of(frames))
                self._is_postponed = False
                self._interrupt()
            wait, has_interrupted = SOON_SECONDS, True

    def end(self) -> None:
        """Stop interrupting the check, because the check has ended."""
        with self._lock:
            self._done.set()

    def _interrupt(self) -> None:
        if self._thread == threading.main_thread().ident:
            signal.pthread_kill(self._thread, SIGNAL)
        else:  # the thread raises the exception once it runs Python code again
            ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(self._thread), ctypes.py_object(TimeIsUp))

    def raise_in_main(self, number: int, frame: FrameType | None) -> None:
        """Handle the signal: raise ``TimeIsUp`` in the main thread. If this thread is entering or exiting a context
        manager, do not raise yet: the thread that runs ``watch`` sends the signal again soon.
        """
        if self._done.is_set():
            return
        if self._postponed < _MOST_POSTPONED and _is_changing_context(frame):
            self._postponed += 1
            self._is_postponed = True
            return
        raise TimeIsUp

    def _say(self, place: Location | None) -> None:
        where = f" at {place.shown()}" if place else ""
        text = f"a check exceeded its limit of {self._seconds:g} s{where}, in C code that cannot be interrupted"
        print(f"pytest-torch-compile: {text}: {advice.ISOLATE}", file=sys.__stderr__, flush=True)


def _is_changing_context(frame: FrameType | None) -> bool:
    """Return whether one of the innermost functions enters or exits a context manager."""
    for _ in range(_INNERMOST):
        if frame is None:
            return False
        if frame.f_code.co_name in _CHANGING:
            return True
        frame = frame.f_back
    return False


def timeout_finding(frames: list[Location], seconds: float) -> Finding:
    """Return the finding for a check that took too long; ``frames`` is its stack, outermost first."""
    message = f"did not finish within {seconds:g} s"
    inner = "innermost first:\n" + stack_text(frames)
    return Finding("timeout", message, place_of(frames), inner, advice.LONGER, limit=seconds)


@contextmanager
def time_limit(seconds: float | None) -> Iterator[TimeLimit]:
    """Interrupt the ``with`` block after ``seconds``; the yielded ``TimeLimit`` contains the finding. Inside another
    ``time_limit`` block, this function has no effect.
    """
    limit = TimeLimit(seconds or 0)
    if seconds is None or getattr(_limited, "now", False):
        yield limit
        return
    watch = threading.Thread(target=limit.watch, name="torch-compile-limit", daemon=True)
    _limited.now = True
    try:
        with _handled_by(limit.raise_in_main):
            watch.start()
            try:
                yield limit
            finally:
                limit.end()
    except TimeIsUp:
        if not limit.findings:
            raise
    finally:
        _limited.now = False


def chosen_time_limit() -> AbstractContextManager[TimeLimit]:
    """Interrupt the ``with`` block after the time that ``--compile-timeout`` sets."""
    return time_limit(settings.current.timeout)


@contextmanager
def _handled_by(handler: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(SIGNAL, handler)
    try:
        yield
    finally:
        signal.signal(SIGNAL, before if before is not None else signal.SIG_DFL)
