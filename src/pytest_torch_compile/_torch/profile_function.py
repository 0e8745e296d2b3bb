"""Temporarily replace this thread's profile function. This module does not import torch."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from ..findings import CompileUsageError


@contextmanager
def profile_function(note: Callable[..., Any] | None) -> Iterator[None]:
    """Make ``note`` the profile function inside the ``with`` block, and restore the previous profile function
    afterwards.

    Raises:
        CompileUsageError: If the previous profile function cannot be restored later.
    """
    before: Any = sys.getprofile()
    if before is None and note is None:
        yield
        return
    is_in_c = before is not None and not callable(before)  # such as cProfile before Python 3.12
    if is_in_c and not hasattr(before, "enable"):
        raise CompileUsageError(f"the profiler {type(before).__name__} cannot be paused for the check: turn it off")
    sys.setprofile(note)
    try:
        yield
    finally:
        if is_in_c:
            before.enable()
        else:
            sys.setprofile(before)
