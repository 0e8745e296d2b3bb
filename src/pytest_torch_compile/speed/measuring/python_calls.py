"""The work of the host, counted instead of timed: the functions that Python calls in one call of a target."""

from __future__ import annotations

import itertools
import sys
import threading
from collections.abc import Callable
from typing import Any

REPEATS = 3


def python_calls(run: Callable[[], object]) -> int | None:
    """How many functions Python calls in one ``run()``, builtins included; None where another profiler is at work.

    The least of a few runs, as other threads may call something meanwhile. They count too, from Python 3.12 on:
    backward on a CUDA device runs in a thread of autograd. Before, only the thread that asks is counted.
    """
    if sys.getprofile() is not None:
        return None
    return min(_counted(run) for _ in range(REPEATS)) - _counted(_nothing)


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


def _nothing() -> None:
    """What counting itself adds is what it counts here."""
