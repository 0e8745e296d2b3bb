"""Spare room on the interpreter's stack, so that how deep the caller is does not decide how fast Python is."""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType
from typing import Any, TypeVar

Result = TypeVar("Result")
SLOTS = 1 << 16


def _call(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    return function(*args, **kwargs)


# From 3.11 on CPython keeps frames in chunks of 16 KB and gives a chunk back when its first frame returns: a loop whose
# calls cross the end of a chunk maps memory for every one of them, at 15 to 20 us. One frame that does not fit
# into a chunk gets one of its own, with as much room again behind it for all frames above.
_call_with_spare_stack = FunctionType(_call.__code__.replace(co_stacksize=SLOTS), globals(), "call_with_spare_stack")


def with_spare_stack(function: Callable[..., Result], *args: Any, **kwargs: Any) -> Result:
    """``function(*args, **kwargs)`` with half a megabyte of stack that no call has to ask for."""
    result: Result = _call_with_spare_stack(function, *args, **kwargs)
    return result
