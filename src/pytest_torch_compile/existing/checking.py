"""Run one check in the middle of a test: first an eager run, to determine whether the call can be checked, and then the
check itself.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from types import FrameType
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from .. import settings
from .._torch.sandbox import sandbox
from ..check import acceptance
from ..check.check_compile import check_compile
from ..check.time_limit import time_limit
from ..events import heard_only_by
from ..findings import CompileCheckFailed, CompileReport, CompileUsageError
from ..legs.calls import Call
from ..legs.leg import Leg, Work
from ..legs.reach import reached
from ..object_text import message_of
from ..report.failure_text import failure_text
from .public_targets import Called
from .recipes import WrittenCall
from .undisturbed import SideEffect, undisturbed

# Modules whose objects have state that a check cannot restore.
_LASTING_STATE = frozenset({
    "unittest.mock", "random", "io", "_io", "socket", "subprocess", "threading", "_thread", "queue", "_queue",
    "multiprocessing", "asyncio", "concurrent", "sqlite3", "tempfile", "http", "urllib",
})  # fmt: skip


# The number of times that a check makes a call that changes an object or variable each time, such as a counter. Code
# that depends on the counter may recompile in every call but the first, which causes three recompiles. Two recompiles
# are allowed, for objects that the first two calls create.
_TIMES = 4

# A line of a code object: the file and first line of the code object, and the line number.
Line = tuple[str, int, int]


@dataclass
class Checked:
    """The result of checking one call to a target. ``Checked`` contains only data that can be pickled, because
    pytest-xdist workers send the results to the controller.

    ``refused`` is the reason why the call could not be checked. ``computes`` is false if the eager run called no torch
    operation. If the call was skipped because other calls had priority, ``passed_over`` is the reason.
    """

    target: str
    test: str
    report: CompileReport | None = None
    refused: str = ""
    computes: bool = True
    passed_over: str = ""
    took_too_long: bool = False
    seconds: float = 0.0
    breaks: dict[str, dict[str, str]] = field(
        default_factory=dict
    )  # graph breaks to add to compile-accepted.json, because the check does not allow them
    recompiles: int = 0
    allowed: int = 0  # the number of recompiles that the calls' sizes require
    times: int = 1  # the number of times that the check made the call
    train: bool = False
    module: str = ""  # parts of a generated test: the target's module, the expression for the target, the calls
    made: str = ""
    calls: tuple[WrittenCall, ...] = ()
    unwritten: str = ""

    @property
    def max_recompiles(self) -> int:
        """The number of recompiles that the check allows."""
        return self.allowed + max(self.times - 2, 0)


@dataclass(frozen=True)
class Rules:
    """How a call is checked.

    ``existing`` is the value of ``--compile-existing``. ``backend`` is the requested backend, or None to check in the
    same way as ``--compile-fast``. ``owns`` returns whether a module belongs to the package. ``why_not`` returns the
    reason not to check a call, or an empty string; its arguments are the lines of the package that the call executed in
    eager, and whether the check would include gradients.
    """

    existing: str
    owns: Callable[[str], bool]
    why_not: Callable[[set[Line], bool], str]
    backend: str | None = None
    seconds: float = 60.0
    accepting: bool = False


def checked(
    called: Called, test: str, earlier: Sequence[Call], recompiles: int, wants_gradients: bool, rules: Rules,
    accepted: acceptance.Acceptance,
) -> Checked:  # fmt: skip
    """Check a call at the moment it happens. The check runs the ``earlier`` calls first, and allows ``recompiles``
    recompiles.
    """
    began = time.monotonic()
    calls = [*earlier, Call(called.args, called.kwargs)]
    done = Checked(called.name, test, allowed=recompiles)
    with ExitStack() as stack:
        stack.enter_context(undisturbed())
        stack.enter_context(heard_only_by(lambda report: setattr(done, "report", report)))
        now, fast = settings.current, rules.backend is None
        chosen = replace(now, backend=rules.backend or now.backend, fast=fast, diagnose="off")
        stack.enter_context(settings.replaced(chosen))
        stack.enter_context(acceptance.in_force(accepted))
        try:
            is_lower = chosen.timeout is not None and chosen.timeout < rules.seconds
            with time_limit(None if is_lower else rules.seconds) as limit:
                _check(called.target, calls, wants_gradients, rules, done)
            if limit.findings:
                # The plugin chose this time limit, to leave time for other targets, so reaching the limit is not a
                # problem with this target.
                done.refused, done.report = f"the check took longer than {rules.seconds:.0f} s", None
                done.took_too_long = True
        except SideEffect as effect:
            done.refused, done.report = str(effect), None
        except CompileUsageError as error:
            done.refused = str(error).splitlines()[0]
        except Exception as error:
            done.refused = f"the check itself failed: {type(error).__name__}: {message_of(error).splitlines()[:1]}"
    if done.report is not None:
        done.report.rerun = f"{done.report.rerun} --compile-existing={rules.existing}"
        done.report.text = failure_text(done.report)
    done.breaks, done.recompiles = accepted.found_breaks, accepted.found_recompiles
    done.seconds = time.monotonic() - began
    return done


def _check(target: Any, calls: Sequence[Call], wants_gradients: bool, rules: Rules, done: Checked) -> None:
    if why := _lasting_state([target, *(value for one in calls for value in (*one.args, *one.kwargs.values()))]):
        done.refused = why
        return
    tried = _tried(Work(target, [calls[-1]] * _TIMES), rules.owns)
    if tried.refused or not tried.computes:
        done.refused, done.computes = tried.refused, tried.computes
        return
    done.train = wants_gradients and tried.requires_grad
    done.passed_over = rules.why_not(tried.lines, done.train)
    if done.passed_over:
        return
    if tried.counts:
        done.times = _TIMES
        try:
            _compare(target, calls, done)
        except CompileUsageError:  # for example, backward has freed buffers that the repeated call needs
            done.times = 1
        else:
            return
    _compare(target, calls, done)


def _compare(target: Any, calls: Sequence[Call], done: Checked) -> None:
    repeated = [calls[-1]] * (done.times - 1)
    try:
        check_compile(target, calls=[*calls, *repeated], max_recompiles=done.max_recompiles, train=done.train)
    except CompileCheckFailed as failed:
        done.report = failed.report


def _lasting_state(values: Sequence[Any]) -> str:
    """Return the reason why a call cannot be repeated without side effects: the target or an argument refers to an
    object whose state the check does not restore. Return an empty string if the call can be repeated.
    """
    for value in reached(values):
        kind = type(value)
        home = str(kind.__module__)
        if home in _LASTING_STATE or home.partition(".")[0] in _LASTING_STATE:
            return f"the call involves an object of type {kind.__name__}, whose state cannot be restored"
    return ""


@dataclass
class _Tried:
    refused: str = ""
    computes: bool = True
    requires_grad: bool = False
    lines: set[Line] = field(default_factory=set)
    counts: bool = False


def _tried(work: Work, owns: Callable[[str], bool]) -> _Tried:
    """Run a call eagerly. Determine which lines the call executes, and whether the call raises an exception, runs torch
    operations or has an output that requires gradients. Also determine whether repeated runs change the same object or
    variable, such as a counter.
    """
    with sandbox() as box:
        leg = Leg(work)
        if unread := leg.world.not_observable():
            return _Tried(unread[0])
        leg.mode = counting = _Counting()
        with box.watching(leg.world.names), _lines(owns) as lines:
            record = leg.run(0)
            counts = record.error is None and _counts(leg, work)
    if record.error is not None:
        return _Tried(f"eager raises {type(record.error).__name__}")
    requires_grad = any(one.requires_grad for one in record.output.tensors.values())
    return _Tried(computes=counting.operations > 0, requires_grad=requires_grad, lines=lines, counts=counts)


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


@contextmanager
def _lines(owns: Callable[[str], bool]) -> Iterator[set[Line]]:
    """Yield a set that receives each line of the package that runs inside the ``with`` block."""
    lines: set[Line] = set()

    def in_frame(frame: FrameType, event: str, argument: Any) -> Any:
        code = frame.f_code
        lines.add((code.co_filename, code.co_firstlineno, frame.f_lineno))
        return in_frame

    def entered(frame: FrameType, event: str, argument: Any) -> Any:
        return in_frame if owns(str(frame.f_globals.get("__name__", ""))) else None

    before = sys.gettrace()
    sys.settrace(entered)
    try:
        yield lines
    finally:
        sys.settrace(before)


class _Counting(TorchFunctionMode):
    """Counts the torch operations that return a new tensor rather than one of their arguments."""

    def __init__(self) -> None:
        super().__init__()
        self.operations = 0

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if isinstance(result, (torch.Tensor, tuple, list)):
            given = {id(value) for value in args}
            results = result if isinstance(result, (tuple, list)) else [result]
            self.operations += any(isinstance(one, torch.Tensor) and id(one) not in given for one in results)
        return result
