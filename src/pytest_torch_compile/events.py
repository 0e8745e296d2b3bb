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

# A newcomer's first check compiles for 5 to 20 s: what takes longer than that says so.
FIRST_SECONDS = 15.0
EVERY_SECONDS = 30.0
_activity = ["compiling and checking"]
_on_guard: list[Callable[[], None]] = []
_listeners: list[Callable[[CompileReport], None]] = []


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
