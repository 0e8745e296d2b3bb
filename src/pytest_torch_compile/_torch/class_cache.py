"""Store the results of a function of a class."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TypeVar

Result = TypeVar("Result")
# The maximum number of classes for each function. It is limited because a stored class stays alive.
MOST_CLASSES = 4096


def cached_by_class(function: Callable[[type], Result]) -> Callable[[type], Result]:
    """Store the function's results. Classes are found by their id, because a metaclass may raise an exception when a
    class is compared or hashed.
    """
    known: dict[int, tuple[type, Result]] = {}

    @functools.wraps(function)
    def result(kind: type) -> Result:
        if id(kind) not in known:
            if len(known) >= MOST_CLASSES:
                known.clear()
            known[id(kind)] = kind, function(kind)
        return known[id(kind)][1]

    return result
