"""Where a call happens: whether it comes from outside of the package, and whether a check may run right there."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from types import CodeType, FrameType, FunctionType

import torch

from .. import __name__ as OWN

# Code under these runs for a tracer, for backward, or against a clock.
_REFUSED = {
    "torch._dynamo": "it is called while its test compiles",
    "torch.fx": "it is called while its test traces",
    "torch.jit": "it is called while its test traces",
    "torch.export": "it is called while its test traces",
    "torch.onnx": "it is called while its test traces",
    "torch._functorch": "it is called inside a transform of torch.func",
    "torch._higher_order_ops": "it is called while its test traces",
    "torch.autograd.function": "it is called inside an autograd function",
    "torch.optim": "it is called by an optimizer",
    "hypothesis": "its test runs under Hypothesis, which times every example",
    "pytest_benchmark": "its test times it",
}
_MUTATING = frozenset({"apply", "_apply", "load_state_dict", "state_dict", "register_parameter", "__setattr__"})
_BACKWARD = frozenset({"backward", "grad", "gradcheck", "gradgradcheck"})
# Where a test is called by what runs it.
_RUNNERS = ("_pytest.python", "_pytest.unittest", "unittest.case", f"{OWN}.existing.session")


@dataclass(frozen=True)
class Place:
    """Where a call from outside happens. ``refused`` says why no check may run there, empty where it may."""

    refused: str = ""
    wants_gradients: bool = False


def place_of(frame: FrameType, is_inside: Callable[[str], bool]) -> Place | None:
    """The place of a call; None where code of the package, or a check, makes it."""
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
                refused = refused or "it is called while its test changes a module"
            wants = wants or name == "torch.autograd.gradcheck"
        elif not name.startswith(("_pytest.", "pluggy.")):
            wants = wants or names_backward(outer.f_code)
        outer = outer.f_back
    return Place(refused or _refused_now(), wants)


def _refused_under(name: str) -> str:
    return next((why for prefix, why in _REFUSED.items() if f"{name}.".startswith(f"{prefix}.")), "")


def _refused_now() -> str:
    """Why no check may run at all at this moment."""
    if any(map(_works, threading.enumerate())):
        return "its test runs other threads, which may hold a lock or change it"
    if torch.compiler.is_compiling() or torch.jit.is_tracing():
        return "it is called while its test traces"
    return ""


def _works(thread: threading.Thread) -> bool:
    """Whether a thread may hold a lock of the test or change its objects.

    One of a pool that waits for work does neither. Inductor, for one, keeps such a pool once it has compiled.
    """
    if thread is threading.main_thread() or thread.daemon:
        return False
    frame = sys._current_frames().get(thread.ident or 0)
    if frame is None:
        return False
    return (frame.f_globals.get("__name__"), frame.f_code.co_name) != ("concurrent.futures.thread", "_worker")


def names_backward(code: CodeType) -> bool:
    """Whether a function of a test names what computes gradients, functions inside it included."""
    if not _BACKWARD.isdisjoint(code.co_names):
        return True
    return any(names_backward(inner) for inner in code.co_consts if isinstance(inner, CodeType))


def replaced_parts(owns: Callable[[str], bool]) -> str:
    """What a test has put in the place of a part of the package (a mock, a function of its own); empty for nothing."""
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
    """Whether a value is a mock, or a function from a test file: no library would hold one. Asks no object itself."""
    if type(value) is FunctionType:
        home = str(value.__globals__.get("__name__", "")).rpartition(".")[2]
        return home == "conftest" or home.startswith("test_")
    return type(value).__module__ == "unittest.mock"
