"""Run one check in the middle of a test: first an eager run (``trial.py``), and then the check itself."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import Any

from .. import settings
from .._torch.object_text import message_of
from ..check import acceptance
from ..check.check_compile import check_compile
from ..check.time_limit import time_limit
from ..events import heard_only_by
from ..findings import CompileCheckFailed, CompileReport, CompileUsageError
from ..legs.calls import Call
from ..legs.work import Work
from ..report.failure_text import failure_text
from .public_targets import Called
from .recipes import WrittenCall
from .trial import Line, lasting_state, try_eagerly
from .undisturbed import SideEffect, undisturbed

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
    if why := lasting_state([target, *(value for one in calls for value in (*one.args, *one.kwargs.values()))]):
        done.refused = why
        return
    tried = try_eagerly(Work(target, [calls[-1]] * _TIMES), rules.owns)
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
