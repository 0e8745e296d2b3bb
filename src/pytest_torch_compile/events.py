"""Listeners for finished checks and for newly opened ``compile_guard`` blocks, and progress messages for long work.

At run time, this module imports no other module of this package, so importing it is cheap.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .findings import CompileReport
    from .observation import Observation

# A first check often compiles for 5 to 20 s, so progress messages start only after 15 s.
FIRST_SECONDS = 15.0
EVERY_SECONDS = 30.0
_activity = ["compiling and checking"]
_on_guard: list[Callable[[], None]] = []
_listeners: list[Callable[[CompileReport], None]] = []
_running: list[RunningCheck] = []
_on_progress: list[Callable[[RunningCheck, Observation], None]] = []


class RunningCheck:
    """A running check or ``compile_guard`` block; ``ended`` is true once it has finished without an exception."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.seen: Observation | None = None
        self.ended = False


@contextmanager
def listening(listener: Callable[[CompileReport], None]) -> Iterator[None]:
    """Call the listener for every check that ends inside the ``with`` block, whether it passed or failed."""
    _listeners.append(listener)
    try:
        yield
    finally:
        _listeners.remove(listener)


def announce(report: CompileReport) -> None:
    """Notify all listeners of a finished check."""
    for listener in list(_listeners):
        listener(report)


@contextmanager
def heard_only_by(listener: Callable[[CompileReport], None]) -> Iterator[None]:
    """Notify only ``listener`` of checks that end inside the ``with`` block. Other listeners must not receive the
    reports of these checks, because the checks are not part of the running test.
    """
    before = list(_listeners)
    _listeners[:] = [listener]
    try:
        yield
    finally:
        _listeners[:] = before


@contextmanager
def hearing_guards(listener: Callable[[], None]) -> Iterator[None]:
    """Call the listener for each ``compile_guard`` opened inside the ``with`` block, before the block observes
    anything.
    """
    _on_guard.append(listener)
    try:
        yield
    finally:
        _on_guard.remove(listener)


def guard_opens() -> None:
    """Notify all listeners that a ``compile_guard`` block is being opened."""
    for listener in list(_on_guard):
        listener()


@contextmanager
def checking(name: str) -> Iterator[None]:
    """Register a running check called ``name`` for the ``with`` block, so that listeners receive its progress."""
    _running.append(check := RunningCheck(name))
    try:
        yield
        check.ended = True
    finally:
        _running.remove(check)
        if check.seen is not None:
            progress(check, check.seen)


def running_check() -> RunningCheck | None:
    """Return the innermost running check, or None if no check is running."""
    return _running[-1] if _running else None


def progress(check: RunningCheck, seen: Observation) -> None:
    """Notify all listeners of the observations that a check has made so far."""
    check.seen = seen
    for listener in list(_on_progress):
        listener(check, seen)


@contextmanager
def hearing_progress(listener: Callable[[RunningCheck, Observation], None]) -> Iterator[None]:
    """Call the listener with the observations of each check inside the ``with`` block, both while the check runs and
    once at its end.
    """
    _on_progress.append(listener)
    try:
        yield
    finally:
        _on_progress.remove(listener)


@contextmanager
def doing(what: str) -> Iterator[None]:
    """Describe the work done in the ``with`` block, for progress messages."""
    _activity.append(what)
    try:
        yield
    finally:
        _activity.pop()


@contextmanager
def sign_of_life(say: Callable[[str], None], what: str, slower: int = 1) -> Iterator[None]:
    """Report the running time of the ``with`` block after ``FIRST_SECONDS``, and then every ``EVERY_SECONDS``. Both are
    multiplied by ``slower``.
    """
    done = threading.Event()
    start = time.monotonic()

    def watch() -> None:
        wait = FIRST_SECONDS
        while not done.wait(slower * wait):
            say(f"{what}: {_activity[-1]} for {time.monotonic() - start:.0f} s")
            wait = EVERY_SECONDS

    thread = threading.Thread(target=watch, name="torch-compile-progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()
