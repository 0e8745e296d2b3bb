"""A sign of life while a check compiles for long."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

FIRST_SECONDS = 15.0
EVERY_SECONDS = 30.0
_activity = ["compiling and checking"]


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
