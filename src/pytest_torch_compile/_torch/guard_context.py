"""Find recompile causes that the text of a failed guard does not show: variables of enclosing functions, inference
mode, and calls from several threads.

A guard on a closed-over variable looks like a guard on an argument, for example ``n == 2``. Inference mode removes
dispatch keys from every tensor, which looks like a change to the tensor. If several threads call a function before it
is compiled, each call compiles a graph. If no guard fails, torch 2.13 and 2.15 report an unexpected recompilation;
torch 2.6 and 2.11 report no reason, even if a guard fails. The texts of guards were checked with torch 2.6, 2.8, 2.11,
2.13 and 2.15.
"""

from __future__ import annotations

import linecache
import threading
from collections.abc import Iterator, Sequence
from dataclasses import replace
from types import CodeType
from typing import Any

import torch

from ..observation import FailedGuard, Location
from .user_lines import function_name, is_torch

_OTHER_THREAD = "another thread was compiling this function when the call started"
_CONCURRENT = FailedGuard("", _OTHER_THREAD, "", "concurrent-calls")
_NO_GUARD_FAILED = "Unexpected recompilation: runtime guards failed even though they passed"
_OF_VALUES = ("python-number", "python-bool", "python-string", "python-value", "new-object")


class GuardContext:
    """A record of the threads that compiled each frame, and of whether inference mode was on."""

    def __init__(self) -> None:
        self._inference: dict[Any, set[bool]] = {}
        self._threads: dict[Any, set[int]] = {}

    def compiled(self, frame: Any) -> None:
        """Record this thread, and whether inference mode is on, while a frame is compiled."""
        self._inference.setdefault(frame, set()).add(torch.is_inference_mode_enabled())
        self._threads.setdefault(frame, set()).add(threading.get_ident())

    def was_compiled_in_another_thread(self, frame: Any) -> bool:
        """Return whether another thread has compiled a frame."""
        return bool(self._threads.get(frame, set()) - {threading.get_ident()})

    def explained(
        self, frame: Any, name: str, location: Location | None, failed: Sequence[FailedGuard]
    ) -> tuple[FailedGuard, ...]:
        """Return the guards in ``failed``, with a corrected ``cause`` for each guard whose text does not show the real
        cause. A reason that names no guard is replaced if the cause is known.
        """
        other_mode = torch.is_inference_mode_enabled() not in self._inference.get(frame, {False, True})
        of_values = any(guard.cause in _OF_VALUES for guard in failed)
        users = location is not None and not is_torch(location.file)
        enclosing = _enclosing_variables(location, name) if location and users and of_values else set()
        other_thread = self.was_compiled_in_another_thread(frame)
        return tuple(
            replace(_CONCURRENT, entry=guard.entry)
            if other_thread and guard.text.startswith(_NO_GUARD_FAILED)
            else replace(guard, cause="inference-mode")
            if guard.cause == "dispatch-keys" and other_mode
            else replace(guard, cause="closure")
            if guard.cause in _OF_VALUES and guard.names in enclosing
            else guard
            for guard in failed
        )


def _enclosing_variables(location: Location, name: str) -> set[str]:
    """Return the variables of enclosing functions that a function uses, or an empty set if the function's source cannot
    be read.
    """
    try:
        module = compile("".join(linecache.getlines(location.file)), location.file, "exec", dont_inherit=True)
    except (SyntaxError, ValueError):
        return set()
    wanted = (function_name(name).rsplit(".", 1)[-1], location.line)
    return {one for code in _codes(module) if (code.co_name, code.co_firstlineno) == wanted for one in code.co_freevars}


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)
