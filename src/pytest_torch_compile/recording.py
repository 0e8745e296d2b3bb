"""Who wants to hear of finished checks. Imports nothing, so that listening costs nothing while no check runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .result import CompileReport

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
