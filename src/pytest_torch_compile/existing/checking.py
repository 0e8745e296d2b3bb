"""Run one check in the middle of a test: first an eager run, to determine whether the call can be checked, and then the
check itself.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from types import FrameType
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from .. import settings
from .._torch.object_text import message_of
from .._torch.sandbox import sandbox
from .._torch.tensor_state import without_torch_function
from ..check import acceptance
from ..check.check_compile import check_compile
from ..check.time_limit import time_limit
from ..events import heard_only_by
from ..findings import CompileCheckFailed, CompileReport, CompileUsageError
from ..legs.calls import Call
from ..legs.leg import Leg
from ..legs.reach import reached
from ..legs.work import Work
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

# The backend if no backend is requested.
WITHOUT_CODE_GENERATION = "aot_eager"
_NOT_GENERATED = (
    f"generated code, because --compile-existing uses backend {WITHOUT_CODE_GENERATION} by default (to check generated "
    "code, use --compile-backend=inductor)"
)
_MAKES_MODULE = "the call returns a new nn.Module"

# In-place operations that change no value. The names of other in-place operations end with an underscore, too.
_KEEPS_VALUES = frozenset({"requires_grad_", "share_memory_", "detach_", "rename_"})
_WRITES = (torch.Tensor.__setitem__, torch.Tensor.data.__set__)

# A line of a code object: the file and first line of the code object, and the line number.
Line = tuple[str, int, int]


@dataclass
class Checked:
    """The result of checking one call to a target. ``Checked`` contains only data that can be pickled, because
    pytest-xdist workers send the results to the controller.

    ``refused`` is the reason why the call could not be checked. ``computes`` is false if the eager run neither created
    nor changed a tensor. If the call was skipped because other calls had priority, ``passed_over`` is the reason.
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

    ``existing`` is the value of ``--compile-existing``. ``backend`` is the requested backend, or None for a backend
    without code generation. ``owns`` returns whether a module belongs to the package. ``why_not`` returns the
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
        backend = rules.backend or WITHOUT_CODE_GENERATION
        # --compile-fast changes only the backend, which is set here, so the remark on --compile-fast would be wrong.
        stack.enter_context(settings.replaced(replace(settings.current, backend=backend, fast=False, diagnose="off")))
        stack.enter_context(acceptance.in_force(accepted))
        try:
            timeout = settings.current.timeout
            is_lower = timeout is not None and timeout < rules.seconds
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
        if rules.backend is None:
            done.report.observation.not_observable.append(_NOT_GENERATED)
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
    """Run a call eagerly. Determine which lines the call executes, and whether the call raises an exception, returns a
    new module, creates or changes tensors, or has an output that requires gradients. Also determine whether repeated
    runs change the same object or variable, such as a counter.
    """
    with sandbox() as box:
        leg = Leg(work)
        if unread := leg.world.not_observable():
            return _Tried(unread[0])
        leg.mode = counting = _Counting()
        with box.watching(leg.world.names), _watched(owns) as ran:
            record = leg.run(0)
            counts = record.error is None and _counts(leg, work)
    if record.error is not None:
        return _Tried(f"eager raises {type(record.error).__name__}")
    # A call that returns an existing module, or uses a new module only inside, can be compiled.
    if ran.makes_module and any(issubclass(node.kind, torch.nn.Module) for node in record.output.nodes.values()):
        return _Tried(_MAKES_MODULE)
    requires_grad = any(one.requires_grad for one in record.output.tensors.values())
    return _Tried(computes=counting.operations > 0, requires_grad=requires_grad, lines=ran.lines, counts=counts)


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
