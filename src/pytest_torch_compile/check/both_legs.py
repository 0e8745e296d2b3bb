"""Run a check's calls in eager and in compiled code, and compare the results of each call."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial

from .._torch import canary, support
from .._torch.sandbox import Sandbox
from ..findings import CallReport, CompileUsageError
from ..legs.check import Check
from ..legs.lazy_leg import LazyLeg
from ..legs.leg import Leg, Work
from ..legs.outcome import not_restorable
from ..legs.references import PerturbedLegs, ReferenceLeg
from ..legs.targets import argument_names
from ..numerics import CallRecord, Comparison, compare_calls
from ..observation import Deviation, LateCompilation, Observation
from .describe import call_row
from .exact_limits import Figures, counting_kernels
from .expected_exceptions import compared_exceptions
from .leg_errors import raise_if_usage_error
from .remarks import not_judged_by
from .steady import after_warm_up


@dataclass
class Run:
    """The compiled run of all calls, and the comparison of each call with the eager run."""

    seen: Observation
    rows: list[CallReport] = field(default_factory=list)
    comparisons: list[Comparison] = field(default_factory=list)
    compile_error: BaseException | None = None
    refused: BaseException | None = None
    deviations: list[Deviation] = field(default_factory=list)
    late: list[LateCompilation] = field(default_factory=list)
    figures: Figures = field(default_factory=Figures)
    expected: dict[int, BaseException] = field(default_factory=dict)
    not_restorable: list[str] = field(default_factory=list)


@dataclass
class Eager:
    """The finished eager run, with its record of each call."""

    leg: Leg
    records: list[CallRecord] = field(default_factory=list)


def eager_leg(work: Work, box: Sandbox) -> Eager:
    """Run the calls eagerly, up to the first unexpected exception."""
    eager = Eager(Leg(work, holds_records=True))
    for index, call in enumerate(work.calls):
        with box.watching(eager.leg.world.names):
            eager.records.append(eager.leg.run(index))
        if eager.records[-1].error is not None and not call.exceptions:
            break
    return eager


def compiled_beside(eager: Eager, check: Check, box: Sandbox) -> Run:
    """Discard code that was compiled earlier, and then run the calls with the compiled target. Compare each call with
    the eager run before the next call starts.
    """
    box.forget()
    work, world = check.work, eager.leg.world
    observer = canary.observer()
    run = Run(observer.seen)
    try:
        compiled = Leg(work, world, wrap=check.compiling)
    except Exception as error:
        if not check.compiling.is_torchs or isinstance(error, CompileUsageError):
            raise
        run.compile_error = error  # torch.compile rejects the target; torch 2.6 rejects functions of torch
        return run
    reference = LazyLeg(lambda: ReferenceLeg(work, eager.leg))
    repeat, perturbed = LazyLeg(lambda: Leg(work, world)), PerturbedLegs(work, world)
    for index, expected in enumerate(eager.records):
        observer.call = index + 1
        kernels = counting_kernels(check.budget, work, run.figures)
        with observer, after_warm_up(work.warmup, index + 1, run.late), kernels:
            actual = compiled.run(index)
        raise_if_usage_error(expected, actual)
        raised = actual.error is not None
        row = call_row(index, work.calls[index], observer.seen, argument_names(work.target), raised=raised)
        run.rows.append(row)
        if work.calls[index].exceptions:
            run.comparisons.append(compared_exceptions(work.calls[index], expected, actual))
            run.expected |= {index + 1: expected.error} if expected.error else {}
            continue
        if actual.error is not None and expected.error is None and support.is_compiler_error(actual.error):
            run.compile_error = actual.error
            break
        run.comparisons.append(
            compare_calls(
                expected,
                actual,
                reference=partial(reference.record, index),
                repeat=partial(repeat.record, index),
                perturbed=partial(perturbed.records, index),
                tolerances=check.tolerances,
            )
        )
        if expected.error is not None or actual.error is not None:
            break
    else:
        _require_backward(work, eager.leg)
    run.not_restorable = not_restorable(eager.records[-1], work.calls[len(eager.records) - 1])
    run.seen.not_observable += [*world.not_observable(), *not_judged_by(reference.why_not, perturbed.why_not)]
    return run


def _require_backward(work: Work, eager: Leg) -> None:
    if work.train and not eager.went_backward:
        raise CompileUsageError(
            "train=True, but no call has an output that requires grad, so there are no gradients to compare; use "
            "parameters or inputs that require grad (x.requires_grad_())"
        )
