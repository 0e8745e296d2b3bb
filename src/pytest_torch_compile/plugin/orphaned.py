"""Make a process exit about a second after its parent. Without this module, pytest-xdist workers continue for up to 15
seconds after their session is killed.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from functools import cache

SECONDS = 1.0  # how often to check whether the parent is still running
PARENT = os.getppid()  # read at import: if the parent has already exited by now, this module cannot detect its exit


@cache
def end_with_session(before: Callable[[], None] = lambda: None, parent: int = PARENT) -> None:
    """Start a thread that calls ``before`` and exits this process once the parent process has exited. A second call
    with the same arguments does nothing.
    """
    threading.Thread(target=_watch, args=[before, parent], daemon=True, name="torch-compile session watch").start()


def _watch(before: Callable[[], None], parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(SECONDS)
    before()
    os._exit(1)
