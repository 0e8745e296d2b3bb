"""Workers of pytest-xdist whose session was killed end at once: by themselves they go on for up to 15 seconds."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from functools import cache

SECONDS = 1.0  # from one look at the parent to the next
PARENT = os.getppid()  # noted as early as can be: of a parent that ended before this, nothing is known


@cache
def end_with_session(before: Callable[[], None] = lambda: None, parent: int = PARENT) -> None:
    """Watch the parent of this process, and end with it, after ``before``. A second call does nothing."""
    threading.Thread(target=_watch, args=[before, parent], daemon=True, name="torch-compile session watch").start()


def _watch(before: Callable[[], None], parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(SECONDS)
    before()
    os._exit(1)
