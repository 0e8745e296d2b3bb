"""Who hears of finished checks, of guards that open and of long work.

Imports nothing of ours, so that listening costs nothing while no check runs.
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

# A newcomer's first check compiles for 5 to 20 s: what takes longer than that says so.
FIRST_SECONDS = 15.0
EVERY_SECONDS = 30.0
_activity = ["compiling and checking"]
_on_guard: list[Callable[[], None]] = []
_listeners: list[Callable[[CompileReport], None]] = []
_running: list[RunningCheck] = []
_on_progress: list[Callable[[RunningCheck, Observation], None]] = []


class RunningCheck:
    """A check or a guarded region from its first graph to its last; ``ended`` once it has come to its end."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.seen: Observation | None = None
        self.ended = False


@contextmanager
def listening(listener: Callable[[CompileReport], None]) -> Iterator[None]:
    """Hear of every check that ends inside the body, passed or failed."""
    _listeners.append(listener)
    try:
        yield
    finally:
        _listeners.remove(listener)


def announce(report: CompileReport) -> None:
    """Tell all listeners of a finished check."""
    for listener in list(_listeners):
        listener(report)


@contextmanager
def heard_only_by(listener: Callable[[CompileReport], None]) -> Iterator[None]:
    """Only ``listener`` hears of checks that end inside the body: they are not those of the test that runs."""
    before = list(_listeners)
    _listeners[:] = [listener]
    try:
        yield
    finally:
        _listeners[:] = before


@contextmanager
def hearing_guards(listener: Callable[[], None]) -> Iterator[None]:
    """Hear of every ``compile_guard`` that opens inside the body, before it observes anything."""
    _on_guard.append(listener)
    try:
        yield
    finally:
        _on_guard.remove(listener)


def guard_opens() -> None:
    """Tell all listeners that a guard opens."""
    for listener in list(_on_guard):
        listener()


@contextmanager
def checking(name: str) -> Iterator[None]:
    """A check runs in the body: what its observers see is heard while it goes on."""
    _running.append(check := RunningCheck(name))
    try:
        yield
        check.ended = True
    finally:
        _running.remove(check)
        if check.seen is not None:
            progress(check, check.seen)


def running_check() -> RunningCheck | None:
    """The innermost check that runs, for an observer to file under it what it sees."""
    return _running[-1] if _running else None


def progress(check: RunningCheck, seen: Observation) -> None:
    """Tell all listeners what a check has seen up to here."""
    check.seen = seen
    for listener in list(_on_progress):
        listener(check, seen)


@contextmanager
def hearing_progress(listener: Callable[[RunningCheck, Observation], None]) -> Iterator[None]:
    """Hear inside the body what checks see, as they see it, and once more when they end."""
    _on_progress.append(listener)
    try:
        yield
    finally:
        _on_progress.remove(listener)


@contextmanager
def doing(what: str) -> Iterator[None]:
    """Say what the body does, for whoever shows a sign of life."""
    _activity.append(what)
    try:
        yield
    finally:
        _activity.pop()


@contextmanager
def sign_of_life(say: Callable[[str], None], what: str) -> Iterator[None]:
    """Say every now and then how long the body has been running; nothing if it is quick."""
    done = threading.Event()
    start = time.monotonic()

    def watch() -> None:
        wait = FIRST_SECONDS
        while not done.wait(wait):
            say(f"{what}: {_activity[-1]} for {time.monotonic() - start:.0f} s")
            wait = EVERY_SECONDS

    thread = threading.Thread(target=watch, name="torch-compile-progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()
