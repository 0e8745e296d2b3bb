"""Who wants to hear of finished checks and of guards that open.

Imports nothing, so that listening costs nothing while no check runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .result import CompileReport

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
