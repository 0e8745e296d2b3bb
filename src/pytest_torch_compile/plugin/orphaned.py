"""Workers of pytest-xdist whose session was killed end at once: by themselves they go on for up to 15 seconds."""

from __future__ import annotations

import os
import threading
import time
from functools import cache

SECONDS = 1.0  # from one look at the parent to the next


@cache
def end_with_session() -> None:
    """Watch the parent of this process, and end with it. A second call does nothing."""
    threading.Thread(target=_watch, args=[os.getppid()], daemon=True, name="torch-compile session watch").start()


def _watch(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(SECONDS)
    os._exit(1)
