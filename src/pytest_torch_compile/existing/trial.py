"""Run a call eagerly before it is checked, to determine whether a check is possible and worth its time."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import FrameType
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from .._torch.sandbox import sandbox
from .._torch.tensor_state import without_torch_function
from ..legs.leg import Leg
from ..legs.reach import reached
from ..legs.work import Work

# Modules whose objects have state that a check cannot restore.
_LASTING_STATE = frozenset({
    "unittest.mock", "random", "io", "_io", "socket", "subprocess", "threading", "_thread", "queue", "_queue",
    "multiprocessing", "asyncio", "concurrent", "sqlite3", "tempfile", "http", "urllib",
})  # fmt: skip

_MAKES_MODULE = "the call returns a new nn.Module"

# In-place operations that change no value. The names of other in-place operations end with an underscore, too.
_KEEPS_VALUES = frozenset({"requires_grad_", "share_memory_", "detach_", "rename_"})
_WRITES = (torch.Tensor.__setitem__, torch.Tensor.data.__set__)

# A line of a code object: the file and first line of the code object, and the line number.
Line = tuple[str, int, int]


@dataclass
class Trial:
    """The result of an eager run of a call. ``refused`` is the reason why the call cannot be checked, and ``computes``
    is false if the call neither created nor changed a tensor. ``lines`` are the lines of the package that ran.
    ``counts`` is true if each run changes the same object or variable, such as a counter.
    """

    refused: str = ""
    computes: bool = True
    requires_grad: bool = False
    lines: set[Line] = field(default_factory=set)
    counts: bool = False


def try_eagerly(work: Work, owns: Callable[[str], bool]) -> Trial:
    """Run a call eagerly. Determine which lines the call executes, and whether the call raises an exception, returns a
    new module, creates or changes tensors, or has an output that requires gradients. Also determine whether repeated
    runs change the same object or variable, such as a counter.
    """
    with sandbox() as box:
        leg = Leg(work)
        if unread := leg.world.not_observable():
            return Trial(unread[0])
        leg.mode = counting = _Counting()
        with box.watching(leg.world.names), _watched(owns) as ran:
            record = leg.run(0)
            counts = record.error is None and _counts(leg, work)
    if record.error is not None:
        return Trial(f"eager raises {type(record.error).__name__}")
    # A call that returns an existing module, or uses a new module only inside, can be compiled.
    if ran.makes_module and any(issubclass(node.kind, torch.nn.Module) for node in record.output.nodes.values()):
        return Trial(_MAKES_MODULE)
    requires_grad = any(one.requires_grad for one in record.output.tensors.values())
    return Trial(computes=counting.operations > 0, requires_grad=requires_grad, lines=ran.lines, counts=counts)


def _counts(leg: Leg, work: Work) -> bool:
    """Repeat a call that has run once in eager. Return True if the second run changes an object or variable that the
    first run also changed, and no run raises an exception.
    """
    first = leg.changed_objects
    if not first or leg.run(1).error is not None:
        return False
    second = leg.changed_objects
    changes = any(key in second and second[key] is not content for key, content in first.items())
    return changes and all(leg.run(index).error is None for index in range(2, len(work.calls)))


@dataclass
class _Ran:
    """The lines of the package that ran, and whether a module was created."""

    lines: set[Line] = field(default_factory=set)
    makes_module: bool = False


@contextmanager
def _watched(owns: Callable[[str], bool]) -> Iterator[_Ran]:
    """Yield a record of what runs inside the ``with`` block."""
    ran, makes_module = _Ran(), torch.nn.Module.__init__.__code__

    def in_frame(frame: FrameType, event: str, argument: Any) -> Any:
        code = frame.f_code
        ran.lines.add((code.co_filename, code.co_firstlineno, frame.f_lineno))
        return in_frame

    def entered(frame: FrameType, event: str, argument: Any) -> Any:
        ran.makes_module = ran.makes_module or frame.f_code is makes_module
        return in_frame if owns(str(frame.f_globals.get("__name__", ""))) else None

    before = sys.gettrace()
    sys.settrace(entered)
    try:
        yield ran
    finally:
        sys.settrace(before)


class _Counting(TorchFunctionMode):
    """Counts the torch operations that create a tensor, or change one of their arguments. Operations that do neither,
    such as ``x.shape``, ``x.requires_grad_()`` or ``x.contiguous()`` of a contiguous tensor, are not worth a check.
    """

    def __init__(self) -> None:
        super().__init__()
        self.operations = 0

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        given = _tensors([*args, *kwargs.values()])
        before = _versions(given)
        result = func(*args, **kwargs)
        known = {id(tensor) for tensor in given}
        creates = any(id(tensor) not in known for tensor in _tensors([result]))
        changes = bool(given) and (_versions(given) != before or _writes(func, kwargs))
        self.operations += creates or changes
        return result


def _tensors(values: Sequence[Any]) -> list[torch.Tensor]:
    """Return the values that are tensors, and the tensors in lists and tuples."""
    items = (item for value in values for item in (value if isinstance(value, (tuple, list)) else [value]))
    return [item for item in items if isinstance(item, torch.Tensor)]


def _versions(tensors: Sequence[torch.Tensor]) -> list[int]:
    """Return how many times each tensor has been written to. Inference tensors do not count writes."""
    with without_torch_function():
        return [0 if tensor.is_inference() else tensor._version for tensor in tensors]


def _writes(func: Any, kwargs: Mapping[str, Any]) -> bool:
    """Return whether a torch function writes to an argument, according to its name and options. This also covers writes
    that tensors do not count, such as ``resize_`` and all writes to inference tensors.
    """
    name = str(getattr(func, "__name__", ""))
    is_in_place = name.endswith("_") and not name.endswith("__") and name not in _KEEPS_VALUES
    return is_in_place or func in _WRITES or kwargs.get("inplace") is True or kwargs.get("out") is not None


def lasting_state(values: Sequence[Any]) -> str:
    """Return the reason why a call cannot be repeated without side effects: the target or an argument refers to an
    object whose state the check does not restore. Return an empty string if the call can be repeated.
    """
    for value in reached(values):
        kind = type(value)
        home = str(kind.__module__)
        if home in _LASTING_STATE or home.partition(".")[0] in _LASTING_STATE:
            return f"the call involves an object of type {kind.__name__}, whose state cannot be restored"
    return ""
