"""Terminate pytest-xdist workers at once if their session was killed. Otherwise, the workers would continue for up to
15 seconds.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from functools import cache

SECONDS = 1.0  # between two checks of whether the parent is still running
PARENT = os.getppid()  # read as early as possible, because the exit of a parent before this line is not detected


@cache
def end_with_session(before: Callable[[], None] = lambda: None, parent: int = PARENT) -> None:
    """Exit when the parent process exits, after calling ``before``. A second call does nothing."""
    threading.Thread(target=_watch, args=[before, parent], daemon=True, name="torch-compile session watch").start()


def _watch(before: Callable[[], None], parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(SECONDS)
    before()
    os._exit(1)
