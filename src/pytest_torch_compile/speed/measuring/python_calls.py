"""Measure the host's work as the number of function calls during one call of a target."""

from __future__ import annotations

import itertools
import sys
import threading
from collections.abc import Callable
from typing import Any

REPEATS = 3


def python_calls(run: Callable[[], object]) -> int | None:
    """Return the number of function calls in one ``run()``, including builtins, or None if another profiler is active.

    The number is the minimum over a few runs, because other threads may interfere. On Python 3.12 and newer, calls in
    all threads are counted, because the backward pass on a CUDA device runs in an autograd thread. On older versions,
    only calls in the current thread are counted.
    """
    if sys.getprofile() is not None:
        return None
    # An empty run measures the overhead of counting.
    return min(_counted(run) for _ in range(REPEATS)) - _counted(lambda: None)


def _counted(run: Callable[[], object]) -> int:
    counter = itertools.count()

    def note(frame: Any, event: str, argument: Any) -> None:
        if event in ("call", "c_call"):
            next(counter)

    install: Callable[[Any], None] = getattr(threading, "setprofile_all_threads", sys.setprofile)
    install(note)
    try:
        run()
    finally:
        install(None)
    return next(counter)
