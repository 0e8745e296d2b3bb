"""Run a check's calls in eager and in compiled code, and compare the results of each call."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from .._torch import canary
from .._torch.deviations import deviations
from .._torch.sandbox import Sandbox, sandbox
from ..findings import CallReport, CompileUsageError
from ..legs.check_record import Check
from ..legs.eager import Eager, eager_run
from ..legs.extra_legs import ExtraLegs
from ..legs.leg import Leg
from ..numerics import Comparison, compare_call
from ..observation import Observation
from .counted_limits import counting_kernels, measured_on_gpu
from .describe import call_row
from .expected_exceptions import compared_exceptions, without_expected
from .leg_errors import compile_error, raise_if_usage_error
from .watching import Watched


@dataclass
class ComparedRun(Watched):
    """The compiled run of all calls, and the comparison of each call with the eager run.

    ``compile_error`` is the exception with which torch failed to compile the target, and ``refused`` the exception of
    a first run with ``fullgraph=True``, if this is a second run without it. ``raised`` is the last exception that
    compiled code raised, if eager code did not raise one. ``expected`` maps the numbers of calls to
    the exceptions that they are expected to raise.
    """

    rows: list[CallReport] = field(default_factory=list)
    comparisons: list[Comparison] = field(default_factory=list)
    compile_error: BaseException | None = None
    refused: BaseException | None = None
    raised: BaseException | None = None
    expected: dict[int, BaseException] = field(default_factory=dict)
    not_restorable: list[str] = field(default_factory=list)

    @property
    def counted(self) -> Observation:
        """The observations that count towards the budget: those of the warm-up, if there is one, without the effects of
        expected exceptions.
        """
        return without_expected(self.seen.during_warm_up(self.warmup), self.expected)


def run_both_legs(check: Check) -> ComparedRun:
    """Run the calls in eager and in compiled code, compare each call, and measure the quantities that are limited."""
    settings_changed = deviations()
    with sandbox() as box:
        eager = eager_run(check.work, box)
        run = _run_compiled(eager, check, box)
        if run.compile_error is not None and check.compiling.can_relax:
            # fullgraph stops at the first break, so a second run without fullgraph lists all breaks.
            first, run = run, _run_compiled(eager, replace(check, compiling=check.compiling.relaxed()), box)
            run.refused = first.compile_error
        if run.compile_error is None:
            run.figures.measured = measured_on_gpu(check.budget, check.work, check.compiling)
    run.deviations = settings_changed
    return run


def _may_truncate(run: ComparedRun, check: Check) -> bool:
    """Return whether the compiled code may truncate operands to TF32, as generated kernels do. If no code of Inductor
    was observed, this is unknown, unless the backend runs only torch's ops.
    """
    generated = run.observer.generated_products
    return not check.compiling.runs_torchs_ops if generated is None else generated


def _run_compiled(eager: Eager, check: Check, box: Sandbox) -> ComparedRun:
    """Discard code that was compiled earlier, and then run the calls with the compiled target. Compare each call with
    the eager run before the next call starts.
    """
    box.forget()
    work, world = check.work, eager.leg.world
    run = ComparedRun(canary.observer(steady=work.warmup is not None), work.warmup)
    try:
        compiled = Leg(work, world, wrap=check.compiling)
    except Exception as error:
        if not check.compiling.is_torchs or isinstance(error, CompileUsageError):
            raise
        run.compile_error = error  # torch.compile rejects the target; torch 2.6 rejects functions of torch
        return run
    extra_legs = ExtraLegs(work, lambda: eager.leg, lambda: _may_truncate(run, check))
    for index, expected in enumerate(eager.records):
        with run.watching(index + 1, counting_kernels(check.budget, work, run.figures)):
            actual = compiled.run(index)
        raise_if_usage_error(expected, actual)
        row = call_row(index, work.calls[index], run.seen, work.target, raised=actual.error is not None)
        run.rows.append(row)
        compared = expected, actual, extra_legs.of_call(index), check.tolerances
        if work.calls[index].exceptions:
            run.comparisons.append(compared_exceptions(work.calls[index], *compared))
            run.expected |= {index + 1: expected.error} if expected.error else {}
            continue
        run.raised = actual.error if expected.error is None else None
        run.compile_error = compile_error(expected, actual)
        if run.compile_error is not None:
            break
        run.comparisons.append(compare_call(*compared))
        if expected.error is not None or actual.error is not None:
            break
    else:
        if work.trains and not eager.leg.went_backward:
            raise CompileUsageError(
                "train=True, but no call has an output that requires grad, so there are no gradients to compare; use "
                "parameters or inputs that require grad (x.requires_grad_()), or turn the comparison off (train=False; "
                "in a CompileSuite, trains = False)"
            )
    run.not_restorable = eager.not_restorable()
    run.seen.not_observable += [*world.not_observable(), *extra_legs.not_judged()]
    return run
