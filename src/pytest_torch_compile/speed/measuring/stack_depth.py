"""Reserve stack space in the interpreter, so that the speed of Python does not depend on the caller's stack depth."""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType
from typing import Any, TypeVar

Result = TypeVar("Result")
SLOTS = 1 << 16


def _call(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    return function(*args, **kwargs)


# Since 3.11, CPython keeps frames in chunks of 16 KB and frees a chunk when its first frame returns. A loop whose
# calls cross the end of a chunk allocates memory for every call, at a cost of 15 to 20 us. A frame that does not fit
# into a chunk gets a larger chunk. This function's chunk has half a megabyte of free space left for later frames.
_call_with_spare_stack = FunctionType(_call.__code__.replace(co_stacksize=SLOTS), globals(), "call_with_spare_stack")


def with_spare_stack(function: Callable[..., Result], *args: Any, **kwargs: Any) -> Result:
    """Call ``function(*args, **kwargs)`` with half a megabyte of preallocated stack."""
    result: Result = _call_with_spare_stack(function, *args, **kwargs)
    return result
