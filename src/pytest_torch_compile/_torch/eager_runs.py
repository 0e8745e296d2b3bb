"""Notice functions that run eagerly inside ``torch.compile`` although torch reports no event.

torch reports nothing about the calls that match no graph of a function that has reached the recompile limit earlier,
or about calls under a ``TorchDispatchMode``. In both cases, Python runs the function's own code, and not the code that
dynamo generated.

This module uses these private torch names, checked with torch 2.6, 2.8, 2.11, 2.13 and 2.15:
``torch._dynamo.eval_frame._debug_get_cache_entry_list``,
``torch.utils._python_dispatch._get_current_dispatch_mode_stack``, ``fn`` and ``callback``, variables of the wrapper
that calls a compiled function, and, since 2.13, the attribute ``_recompile_limit`` of ``callback``.
"""

from __future__ import annotations

import functools
import threading
from contextlib import ExitStack
from types import CodeType, FrameType
from typing import Any, Literal

import torch

from ..findings import CompileUsageError
from ..observation import EagerFallback
from . import support
from .compiled_before import compiled_codes
from .deviations import stance
from .profile_function import profile_function
from .trace import TARGET_FRAME, code_location
from .user_lines import is_torch

_WRAPPERS = "torch/_dynamo/eval_frame.py"
_FORWARDS = "torch/_dynamo/external_utils.py"
# Code of torch that traces or runs a graph. The functions that it calls are part of the graph, or are not compiled.
_COMPILER = ("_dynamo", "_functorch", "_higher_order_ops", "_inductor", "_library", "_subclasses", "autograd", "export")
_COMPILER_FILES = ("torch/_ops.py", "torch/library.py", "torch/overrides.py")
_CALLS_OF_MODULE = ("__call__", "_call_impl", "_wrapped_call_impl", "_lazy_forward")


class EagerRuns:
    """Finds functions that run eagerly.

    ``called`` must be called with the frame of the wrapper at each call of a compiled function. If a function has as
    many graphs as the recompile limit allows now or by default, or the call is under a ``TorchDispatchMode``, a profile
    function is set until the wrapper returns. The profile function is notified of each call, and slows down all Python
    code.
    """

    def __init__(self) -> None:
        self.calls = 0
        self._found: dict[CodeType, EagerFallback] = {}
        self._missed: list[str] = []
        self._graphs = _numbers_of_graphs()
        self._reasons: dict[CodeType, EagerFallback] = {}
        self._add_full(min(support.recompile_limit(), support.DEFAULT_RECOMPILE_LIMIT))
        self._wrappers: set[CodeType] = set()
        self._listening: dict[int, ExitStack] = {}  # by thread

    @property
    def found(self) -> list[EagerFallback]:
        """The functions that ran eagerly. torch's functions that call a module or a decorated function are only listed
        if there are no others.
        """
        found = list(self._found.values())
        return [one for one in found if one.location] or found

    @property
    def undecided(self) -> list[str]:
        """The reasons, if any, why eager runs may have been missed."""
        replaced = ["the code under test replaced the profile function during a call"] if self._listening else []
        return [
            f"torch does not report whether functions that reached the recompile limit ran eagerly, and {why}"
            for why in dict.fromkeys(self._missed + replaced)
        ]

    def called(self, wrapper: FrameType) -> None:
        """Note a call of a compiled function."""
        self.calls += 1
        try:
            self._observe(wrapper)
        except Exception as error:  # must not reach the code under test
            self._missed.append(f"observing a call raised {error!r}")

    def _add_full(self, limit: int) -> None:
        """Add the functions that had at least ``limit`` graphs at the start."""
        full = [code for code, number in self._graphs.items() if number >= limit]
        self._reasons = {code: _eager(code, "earlier-limit", "") for code in full} | self._reasons

    def _observe(self, wrapper: FrameType) -> None:
        self._wrappers.add(wrapper.f_code)
        # ``torch.compile(recompile_limit=...)`` sets a limit for one function.
        if (limit := getattr(wrapper.f_locals.get("callback"), "_recompile_limit", None)) is not None:
            self._add_full(limit)
        mode = _dispatch_mode()
        if mode and (code := _code_of(wrapper.f_locals.get("fn"))) is not None:
            self._reasons[code] = _eager(code, "dispatch-mode", mode)
        # Under a stance, functions may run eagerly for another reason.
        if self._reasons and threading.get_ident() not in self._listening and next(stance(), None) is None:
            self._listen(wrapper)

    def _listen(self, wrapper: FrameType) -> None:
        """Listen until ``wrapper`` returns."""
        thread, listening = threading.get_ident(), ExitStack()

        def note(frame: FrameType, event: str, argument: Any) -> None:
            if event == "return" and frame is wrapper:
                self._listening.pop(thread).close()
            elif event == "call" and frame.f_code in self._reasons and self._is_compiled(frame):
                self._found.setdefault(frame.f_code, self._reasons[frame.f_code])

        try:
            listening.enter_context(profile_function(note))
        except CompileUsageError as error:
            self._missed.append(str(error))
        else:
            self._listening[thread] = listening

    def _is_compiled(self, frame: FrameType) -> bool:
        """Return whether a compiled function called the function of ``frame``. Functions that torch itself runs while
        it traces or runs a graph, and functions that ``torch.compiler.disable`` wraps, are not compiled.
        """
        caller = frame.f_back
        while caller is not None:
            file = caller.f_code.co_filename.replace("\\", "/")
            if file.endswith(_WRAPPERS):
                return caller.f_code in self._wrappers
            if _is_compiler(file):
                return False
            caller = caller.f_back
        return False


@functools.cache
def _is_compiler(file: str) -> bool:
    if not is_torch(file) or file.endswith(_FORWARDS):
        return False
    return file.endswith(_COMPILER_FILES) or any(f"torch/{folder}/" in file for folder in _COMPILER)


def _numbers_of_graphs() -> dict[CodeType, int]:
    codes = compiled_codes()
    if not codes:
        return {}
    from torch._dynamo.eval_frame import _debug_get_cache_entry_list

    return {code: len(_debug_get_cache_entry_list(code)) for code in codes}


def _dispatch_mode() -> str:
    """Return the name of the innermost active ``TorchDispatchMode`` that does not belong to torch's compiler."""
    from torch.utils._python_dispatch import _get_current_dispatch_mode_stack

    modes = [type(mode).__name__.lstrip("_") for mode in _get_current_dispatch_mode_stack() if not mode.is_infra_mode()]
    return modes[-1] if modes else ""


def _code_of(function: Any) -> CodeType | None:
    """Return the code that dynamo compiles for a function or a method; for a module's call, that of its ``forward``."""
    owner = getattr(function, "__self__", None)
    if isinstance(owner, torch.nn.Module) and function.__name__ in _CALLS_OF_MODULE:
        function = owner.forward
    while isinstance(function, functools.partial):
        function = function.func
    code = getattr(getattr(function, "__func__", function), "__code__", None)
    return code if isinstance(code, CodeType) else None


def _eager(code: CodeType, why: Literal["earlier-limit", "dispatch-mode"], detail: str) -> EagerFallback:
    location = code_location(code)
    place = location if location.function != TARGET_FRAME else None
    return EagerFallback(location.function, why, detail, place)
