"""Notice functions that run eagerly inside ``torch.compile`` although torch reports no event.

torch reports nothing about the calls that match no graph of a function that has reached the recompile limit earlier,
or about calls under a ``TorchDispatchMode``. In both cases, Python runs the function's own code, and not the code that
dynamo generated.

This module uses these private torch names, checked with torch 2.6, 2.8, 2.11, 2.13 and 2.15:
``torch._dynamo.eval_frame._debug_get_cache_entry_list``,
``torch.utils._python_dispatch._get_current_dispatch_mode_stack``, and ``fn``, a variable of the wrapper that calls a
compiled function.
"""

from __future__ import annotations

from contextlib import ExitStack
from types import CodeType, FrameType, TracebackType
from typing import Any, Literal

from ..observation import EagerFallback
from . import support
from .compiled_before import compiled_codes
from .profile_function import profile_function
from .trace import TARGET_FRAME, code_location
from .user_lines import is_torch

_WRAPPERS = "torch/_dynamo/eval_frame.py"
# The code of torch that may stand between the wrapper and a compiled function.
_BETWEEN = ("torch/nn/modules/module.py", "torch/_dynamo/external_utils.py")


class EagerRuns:
    """A context manager that finds such functions. Calls in other threads are not observed.

    A profile function is notified of each call. It slows down all Python code, so it is set only if there is a function
    that may be at the limit, or once a compiled function is called under a ``TorchDispatchMode``. ``called`` must be
    called with the frame of the wrapper at each call of a compiled function.
    """

    def __init__(self) -> None:
        self.calls = 0
        self.found: dict[CodeType, EagerFallback] = {}
        self._reasons = {code: _eager(code, "earlier-limit", "") for code in _full_codes()}
        self._wrappers: set[CodeType] = set()
        self._listening = ExitStack()
        self._listens = False

    def __enter__(self) -> EagerRuns:
        if self._reasons:
            self._listen()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._listening.close()

    def called(self, wrapper: FrameType) -> None:
        """Note a call of a compiled function."""
        self.calls += 1
        self._wrappers.add(wrapper.f_code)
        mode = _dispatch_mode()
        if mode and (code := _code_of(wrapper.f_locals.get("fn"))) is not None:
            self._reasons[code] = _eager(code, "dispatch-mode", mode)
            self._listen()

    def _listen(self) -> None:
        if not self._listens:
            self._listens = True
            self._listening.enter_context(profile_function(self._note))

    def _note(self, frame: FrameType, event: str, argument: Any) -> None:
        code = frame.f_code
        if event == "call" and code in self._reasons and self._is_compiled(frame):
            self.found.setdefault(code, self._reasons[code])

    def _is_compiled(self, frame: FrameType) -> bool:
        """Return whether a compiled function called the function of ``frame``. Functions that torch itself runs while
        it traces or runs a graph, and functions that ``torch.compiler.disable`` wraps, are not compiled.
        """
        caller = frame.f_back
        while caller is not None:
            file = caller.f_code.co_filename.replace("\\", "/")
            if file.endswith(_WRAPPERS):
                return caller.f_code in self._wrappers
            if is_torch(file) and not file.endswith(_BETWEEN):
                return False
            caller = caller.f_back
        return False


def _full_codes() -> list[CodeType]:
    """Return the code objects that have as many graphs as the recompile limit allows."""
    codes = compiled_codes()
    if not codes:
        return []
    from torch._dynamo.eval_frame import _debug_get_cache_entry_list

    limit = support.recompile_limit()
    return [code for code in codes if len(_debug_get_cache_entry_list(code)) >= limit]


def _dispatch_mode() -> str:
    """Return the name of the innermost active ``TorchDispatchMode`` that does not belong to torch's compiler."""
    from torch.utils._python_dispatch import _get_current_dispatch_mode_stack

    modes = [type(mode).__name__.lstrip("_") for mode in _get_current_dispatch_mode_stack() if not mode.is_infra_mode()]
    return modes[-1] if modes else ""


def _code_of(function: Any) -> CodeType | None:
    """Return the code that dynamo compiles for a function or a method; for a module's call, that of its ``forward``."""
    from torch.nn import Module

    owner = getattr(function, "__self__", None)
    if isinstance(owner, Module):
        function = owner.forward
    code = getattr(getattr(function, "__func__", function), "__code__", None)
    return code if isinstance(code, CodeType) else None


def _eager(code: CodeType, why: Literal["earlier-limit", "dispatch-mode"], detail: str) -> EagerFallback:
    location = code_location(code)
    place = location if location.function != TARGET_FRAME else None
    return EagerFallback(location.function, why, detail, place)
