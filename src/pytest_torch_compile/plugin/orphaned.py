"""Workers of pytest-xdist whose session was killed end at once: by themselves they go on for up to 15 seconds."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from functools import cache

SECONDS = 1.0  # from one look at the parent to the next


@cache
def end_with_session(before: Callable[[], None] = lambda: None) -> None:
    """Watch the parent of this process, and end with it, after ``before``. A second call does nothing."""
    arguments = [os.getppid(), before]
    threading.Thread(target=_watch, args=arguments, daemon=True, name="torch-compile session watch").start()


def _watch(parent: int, before: Callable[[], None]) -> None:
    while os.getppid() == parent:
        time.sleep(SECONDS)
    before()
    os._exit(1)
