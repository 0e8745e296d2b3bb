"""Determine whether a call comes from outside the package, and whether a check may run at that point."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from types import CodeType, FrameType, FunctionType

import torch

from .. import __name__ as OWN
from .._torch.callers import CALLS_WHILE

# Code that these modules call is being traced, differentiated or timed.
_REFUSED = {
    **CALLS_WHILE,
    "hypothesis": "the test runs under Hypothesis, which times every example",
    "pytest_benchmark": "the test measures its speed",
}
_MUTATING = frozenset({"apply", "_apply", "load_state_dict", "state_dict", "register_parameter", "__setattr__"})
_BACKWARD = frozenset({"backward", "grad", "gradcheck", "gradgradcheck"})
# The modules that call a test.
_RUNNERS = ("_pytest.python", "_pytest.unittest", "unittest.case", f"{OWN}.existing.session")


@dataclass(frozen=True)
class Place:
    """The place of a call from outside the package. ``refused`` is the reason why no check may run there, or empty if a
    check may run.
    """

    refused: str = ""
    wants_gradients: bool = False


def place_of(frame: FrameType, is_inside: Callable[[str], bool]) -> Place | None:
    """The place of a call; None if the package itself or a check makes the call."""
    refused, wants = "", False
    outer = frame.f_back
    while outer is not None:
        name = str(outer.f_globals.get("__name__", ""))
        if name in _RUNNERS:
            break
        if is_inside(name) or name.partition(".")[0] == OWN:
            return None
        if name.startswith("torch.") or name.partition(".")[0] in _REFUSED:
            refused = refused or _refused_under(name)
            if name == "torch.nn.modules.module" and outer.f_code.co_name in _MUTATING:
                refused = refused or "the test calls it while it changes a module"
            wants = wants or name == "torch.autograd.gradcheck"
        elif not name.startswith(("_pytest.", "pluggy.")):
            wants = wants or names_backward(outer.f_code)
        outer = outer.f_back
    return Place(refused or _refused_now(), wants)


def _refused_under(name: str) -> str:
    return next((why for prefix, why in _REFUSED.items() if f"{name}.".startswith(f"{prefix}.")), "")


def _refused_now() -> str:
    """The reason why no check may run at this moment."""
    if any(map(_may_interfere, threading.enumerate())):
        return "the test runs other threads, which may be holding a lock or modifying the target"
    if torch.compiler.is_compiling() or torch.jit.is_tracing():
        return "the test calls it during tracing"
    return ""


def _may_interfere(thread: threading.Thread) -> bool:
    """Whether a thread may hold a lock or modify objects of the test.

    A thread of a pool that is waiting for work does neither. Inductor keeps such a pool after a compilation.
    """
    if thread is threading.main_thread() or thread.daemon:
        return False
    frame = sys._current_frames().get(thread.ident or 0)
    if frame is None:
        return False
    return (frame.f_globals.get("__name__"), frame.f_code.co_name) != ("concurrent.futures.thread", "_worker")


def names_backward(code: CodeType) -> bool:
    """Whether a test's code, or a function nested in it, uses the name of a function that computes gradients."""
    if not _BACKWARD.isdisjoint(code.co_names):
        return True
    return any(names_backward(inner) for inner in code.co_consts if isinstance(inner, CodeType))


def replaced_parts(owns: Callable[[str], bool]) -> str:
    """The name of a part of the package that a test has replaced with a mock or a function; empty if there is none."""
    for path, module in list(sys.modules.items()):
        if not owns(path):
            continue
        for key, value in list(vars(module).items()):
            if _is_of_a_test(value):
                return f"{path}.{key}"
            if issubclass(type(value), type) and _home(value) == path:
                for name, attribute in list(type.__getattribute__(value, "__dict__").items()):
                    if _is_of_a_test(attribute):
                        return f"{path}.{key}.{name}"
    return ""


def _home(kind: type) -> str:
    return str(type.__getattribute__(kind, "__dict__").get("__module__", ""))


def _is_of_a_test(value: object) -> bool:
    """Whether a value is a mock or a function from a test file, which a library never contains. Runs no code of the
    value.
    """
    if type(value) is FunctionType:
        home = str(value.__globals__.get("__name__", "")).rpartition(".")[2]
        return home == "conftest" or home.startswith("test_")
    return type(value).__module__ == "unittest.mock"
