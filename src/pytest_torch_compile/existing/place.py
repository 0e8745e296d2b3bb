"""Determine whether a call comes from outside the package, and whether a check may run at that point."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import CodeType, FrameType, FunctionType
from typing import Any

import torch

from .. import __name__ as OWN
from .._torch.attributes import is_a
from .._torch.callers import CALLS_WHILE

# Code that these modules call is being traced, differentiated or timed.
_REFUSED = {
    **CALLS_WHILE,
    "hypothesis": "the test runs under Hypothesis, which puts a time limit on every example",
    "pytest_benchmark": "the test measures speed with pytest-benchmark",
}
_MUTATING = frozenset({"apply", "_apply", "load_state_dict", "state_dict", "register_parameter", "__setattr__"})
_BACKWARD = frozenset({"backward", "grad", "gradcheck", "gradgradcheck"})
# The modules that call test functions.
_RUNNERS = ("_pytest.python", "_pytest.unittest", "unittest.case", f"{OWN}.existing.session")


@dataclass(frozen=True)
class Place:
    """The circumstances of a call from outside the package. ``refused`` is the reason why no check may run during this
    call, or an empty string if a check may run. ``wants_gradients`` is true if the test seems to compute gradients.
    """

    refused: str = ""
    wants_gradients: bool = False


def place_of_call(frame: FrameType, is_inside: Callable[[str], bool]) -> Place | None:
    """Determine whether a check may run during a call. Return None if the package itself or a check made the call."""
    refused, wants = "", False
    outer = frame.f_back
    while outer is not None:
        name = str(outer.f_globals.get("__name__", ""))
        if name in _RUNNERS:
            break
        if is_inside(name) or name.partition(".")[0] == OWN:
            return None
        if name.startswith("torch.") or name.partition(".")[0] in _REFUSED:
            under = (why for prefix, why in _REFUSED.items() if f"{name}.".startswith(f"{prefix}."))
            refused = refused or next(under, "")
            if name == "torch.nn.modules.module" and outer.f_code.co_name in _MUTATING:
                refused = refused or "the target is called by a method of nn.Module, such as apply or load_state_dict"
            wants = wants or name == "torch.autograd.gradcheck"
        elif not name.startswith(("_pytest.", "pluggy.")):
            wants = wants or names_backward(outer.f_code)
        outer = outer.f_back
    if not refused and any(map(_may_interfere, threading.enumerate())):
        refused = "the test runs other threads, which may hold a lock or modify the target"
    elif not refused and (torch.compiler.is_compiling() or torch.jit.is_tracing()):
        refused = "the target is called during tracing"
    return Place(refused, wants)


def _may_interfere(thread: threading.Thread) -> bool:
    """Return whether a thread other than the main thread may hold a lock or modify the test's objects.

    Daemon threads and the idle threads of a thread pool are ignored. For example, Inductor's pool has idle threads
    after a compilation.
    """
    if thread is threading.main_thread() or thread.daemon:
        return False
    frame = sys._current_frames().get(thread.ident or 0)
    if frame is None:
        return False
    return (frame.f_globals.get("__name__"), frame.f_code.co_name) != ("concurrent.futures.thread", "_worker")


def names_backward(code: CodeType) -> bool:
    """Return whether a code object, or a function nested in it, uses the name of a function that computes gradients,
    such as ``backward``.
    """
    if not _BACKWARD.isdisjoint(code.co_names):
        return True
    return any(names_backward(inner) for inner in code.co_consts if isinstance(inner, CodeType))


class Parts:
    """The functions, classes and other values in the package's modules, examined to detect whether a test has replaced
    one of them. ``owns`` returns whether a module belongs to the package.

    The method ``replaced`` is called before each check. To save time, ``replaced`` skips modules and classes whose
    values are still the same objects.
    """

    def __init__(self, owns: Callable[[str], bool]) -> None:
        self._owns = owns
        self._seen: dict[str, list[int]] = {}
        self._classes: dict[str, list[Any]] = {}

    def replaced(self) -> str:
        """Return the name of a value that a test has replaced with a mock or with a function from a test file, or an
        empty string if no value has been replaced.
        """
        for path, module in list(sys.modules.items()):
            if not self._owns(path):
                continue
            table, ids = vars(module), self._seen.get(path)
            found = self._in_table(path, table)
            if self._seen.get(path) is not ids or path not in self._classes:
                self._classes[path] = [
                    one
                    for one in list(table.values())
                    if is_a(one, type) and str(type.__getattribute__(one, "__dict__").get("__module__", "")) == path
                ]
            if found:
                return found
            for kind in self._classes[path]:
                held = type.__getattribute__(kind, "__dict__")
                if found := self._in_table(f"{path}.{kind.__name__}", held):
                    return found
        return ""

    def _in_table(self, name: str, table: Mapping[str, object]) -> str:
        ids = list(map(id, table.values()))
        if ids != self._seen.get(name):
            for key, value in list(table.items()):
                if _is_of_a_test(value):
                    return f"{name}.{key}"
            self._seen[name] = ids
        return ""


def _is_of_a_test(value: object) -> bool:
    """Return whether a value is a mock or a function from a test file. A library contains such a value only if a test
    has put it there. This function does not call any method of the value.
    """
    if type(value) is FunctionType:
        home = str(value.__globals__.get("__name__", "")).rpartition(".")[2]
        return home == "conftest" or home.startswith("test_")
    return type(value).__module__ == "unittest.mock"
