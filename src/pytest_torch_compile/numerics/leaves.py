"""Compare each tensor (or number) of a call by tolerance. If a tensor fails, judge its error again by comparison with
an eager fp64 run, a second eager run, and eager runs with perturbed rounding.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import torch

from ..findings import Reference
from . import rule
from .extra_runs import ExtraRuns
from .measure import (
    Errors,
    Measured,
    all_finite,
    bitwise_equal,
    difference,
    element,
    errors,
    is_floating,
    root_mean_square,
)
from .record import CallRecord
from .rule import Level
from .sections import GRADIENTS, SectionName, plain_values
from .tolerances import Tolerance

Values = Mapping[str, torch.Tensor]
Scalar = float | complex | int | bool


@dataclass(frozen=True)
class LeafVerdict:
    """The result for one tensor or number. ``index`` is the index of the worst element, and ``eager``, ``compiled`` and
    ``reference`` are the values of this element in the eager, compiled and reference runs. ``rule`` is ``given`` if the
    check's tolerances contain one for this tensor.

    ``large_error`` is the relative error of an output if the report mentions it although the output passes, else 0.
    It is always 0 for gradients, because correct gradients may consist only of rounding errors.
    ``nonfinite`` is true if NaN or infinity occur at different positions in compiled code than in eager.
    ``perturbed_runs`` counts the eager runs with perturbed rounding that widened the limits. ``compared`` is False if
    two eager runs differ by more than rounding; in this case, a passing result proves little.
    """

    path: str
    rule: Literal["given", "tolerance", "fp64", "spread"] = "tolerance"
    measures: tuple[Measured, ...] = ()
    index: tuple[int, ...] = ()
    eager: Scalar | None = None
    compiled: Scalar | None = None
    reference: Scalar | None = None
    differing: int = 0
    elements: int = 0
    large_error: float = 0.0
    nonfinite: bool = False
    perturbed_runs: int = 0
    compared: bool = True

    @property
    def worst(self) -> Measured:
        """The measured error with the largest ratio to its limit."""
        return max(self.measures, key=lambda measured: measured.ratio, default=Measured("error", 0.0, 0.0))

    @property
    def ok(self) -> bool:
        """Whether every measured error is within its limit."""
        return self.worst.ratio <= 1


@dataclass(frozen=True)
class Pair:
    """The eager and compiled values at one path, as strided tensors with the same shape and dtype. ``given`` is the
    tolerance that the user set for them, if any.
    """

    path: str
    section: SectionName
    eager: torch.Tensor
    compiled: torch.Tensor
    given: Tolerance | None = None


@dataclass
class Judgement:
    """The results for all tensors of a call. ``fp64_ran`` is None if no fp64 run was needed."""

    verdicts: dict[str, LeafVerdict] = field(default_factory=dict)
    fp64_ran: bool | None = None
    nondeterministic: bool = False

    @property
    def reference(self) -> Reference:
        """The reference that was used. The results of an fp64 run cannot always be used."""
        if self.fp64_ran is None:
            return Reference.NOT_NEEDED
        rules = {verdict.rule for verdict in self.verdicts.values()}
        if "fp64" in rules:
            return Reference.FP64
        return Reference.TWO_EAGER_RUNS if "spread" in rules else Reference.TOLERANCE

    def failing(self, pairs: Iterable[Pair]) -> list[Pair]:
        """Return the pairs that have not passed so far."""
        return [pair for pair in pairs if not self.verdicts[pair.path].ok]


def judge_pairs(pairs: Sequence[Pair], extra_runs: ExtraRuns) -> Judgement:
    """Judge every pair. Start extra runs only if a pair needs them."""
    result = Judgement({pair.path: _by_tolerance(pair) for pair in pairs})
    # If the user chose a tolerance, only this tolerance decides. Integers must be equal, whatever the tolerance.
    unexplained = [pair for pair in result.failing(pairs) if result.verdicts[pair.path].rule != "given"]
    floating = [pair for pair in unexplained if is_floating(pair.eager)]
    truth: Values = {}
    if floating:
        record = extra_runs.float64()
        result.fp64_ran = record is not None and record.error is None
        truth = _values(record)
        _judge_by_reference(floating, pairs, truth, result)
    failing = result.failing(unexplained)
    # Pairs that pass, but exceed the tolerance that applies without a reference. The reason is that eager itself has a
    # large error against the reference.
    doubtful = [
        pair
        for pair in floating
        if result.verdicts[pair.path].ok
        and not _verdict_within(pair, rule.alone(pair.eager.dtype, root_mean_square(pair.eager))).ok
    ]
    if failing or doubtful:
        _judge_by_spread(failing, doubtful, _values(extra_runs.repeat()), result)
    if result.failing(floating):
        _judge_by_perturbed_rounding(result.failing(floating), truth, extra_runs, result)
    return result


def _values(record: CallRecord | None) -> Values:
    """Return the tensors of a run by path; none if the run failed."""
    return {} if record is None or record.error is not None else plain_values(record)


def _by_tolerance(pair: Pair) -> LeafVerdict:
    """Judge a pair without a reference run: by equality, the user's tolerance, or the strict default tolerance."""
    if pair.eager is pair.compiled or bitwise_equal(pair.eager, pair.compiled):
        return LeafVerdict(pair.path, elements=pair.eager.numel())
    if is_floating(pair.eager):
        if pair.given is not None:
            return replace(_verdict_within(pair, pair.given), rule="given")
        return _verdict_within(pair, rule.near(pair.eager.dtype, root_mean_square(pair.eager)))
    verdict = _verdict_within(pair, Tolerance(0.0, 0.0))
    # Errors are measured in float64, in which different large integers may become equal, so at least one wrong element
    # is counted.
    return replace(verdict, measures=(Measured("wrong elements", float(max(verdict.differing, 1)), 0.0),))


def _verdict_within(pair: Pair, tolerance: Tolerance) -> LeafVerdict:
    found = difference(pair.eager, pair.compiled, tolerance.rtol, tolerance.atol)
    nonfinite = found.nonfinite is not None
    verdict = LeafVerdict(
        pair.path,
        measures=(Measured("NaN or infinity", 1, 0) if nonfinite else found.worst,),
        differing=found.differing,
        elements=pair.eager.numel(),
        nonfinite=nonfinite,
    )
    return _at(found.index if found.nonfinite is None else found.nonfinite, verdict, pair)


def _at(worst: int, verdict: LeafVerdict, pair: Pair, truth: torch.Tensor | None = None) -> LeafVerdict:
    """Return a copy of ``verdict`` that contains the index and the values of the worst element."""
    index, eager = element(pair.eager, worst)
    reference = element(truth, worst)[1] if truth is not None else None
    return replace(verdict, index=index, eager=eager, compiled=element(pair.compiled, worst)[1], reference=reference)


def _judge_by_reference(failing: Sequence[Pair], pairs: Sequence[Pair], truth: Values, result: Judgement) -> None:
    """Judge the ``failing`` pairs by the errors of eager and compiled code against fp64. Without a usable reference,
    the tolerance for the dtype decides.
    """
    measured: dict[str, Errors] = {}
    by_section: dict[str, list[Errors]] = {}
    for pair in pairs:
        if result.verdicts[pair.path].differing and (found := _errors(pair, truth)) is not None:
            measured[pair.path] = found
            by_section.setdefault(pair.section, []).append(found)
    levels = {section: Level.of(found) for section, found in by_section.items()}
    overall = Level.of(measured.values())
    # Correct gradients may consist only of rounding errors. Therefore, only the outputs determine whether the fp64 run
    # computed the same function as eager. Outputs that are bitwise equal are not measured, and do not count here.
    has_outputs = any(pair.section == "output" for pair in pairs)
    outputs = levels.get("output", Level() if has_outputs else overall)
    for pair in failing:
        verdict, dtype = result.verdicts[pair.path], pair.eager.dtype
        if verdict.nonfinite:
            continue
        if pair.path not in measured or outputs.is_unrelated(dtype):
            result.verdicts[pair.path] = _verdict_within(pair, rule.alone(dtype, root_mean_square(pair.eager)))
            continue
        found = measured[pair.path]
        measures = rule.against_reference(found, dtype, levels.get(pair.section, overall))
        verdict = replace(verdict, rule="fp64", measures=tuple(measures), large_error=_large_error(pair, found))
        result.verdicts[pair.path] = _at(found.worst, verdict, pair, truth[pair.path])


def _large_error(pair: Pair, found: Errors) -> float:
    return rule.mentioned(found, pair.eager.dtype) if pair.section == "output" else 0.0


def _errors(pair: Pair, truth: Values) -> Errors | None:
    true = truth.get(pair.path)
    if true is None or true.shape != pair.eager.shape or not (is_floating(pair.eager) and is_floating(true)):
        return None
    if true.dtype.is_complex != pair.eager.dtype.is_complex:
        return None
    found = errors(eager=pair.eager, compiled=pair.compiled, truth=true)
    return found if found.count else None


def _judge_by_spread(failing: Sequence[Pair], doubtful: Sequence[Pair], again: Values, result: Judgement) -> None:
    """If two eager runs differ, accept compiled results whose difference from eager is within a multiple of the
    difference between these runs.

    The ``doubtful`` pairs were accepted by comparison with the reference, although they differ considerably from eager.
    If two eager runs differ by more than rounding, the reference is meaningless, so the doubtful pairs are judged again
    by the difference between the eager runs. Otherwise, the doubtful pairs keep their results.
    """
    for pair in (*failing, *doubtful):
        second = again.get(pair.path)
        if second is None or second.shape != pair.eager.shape or bitwise_equal(pair.eager, second):
            continue
        result.nondeterministic = True
        verdict = _spread_verdict(pair, second)
        if not (verdict.compared and result.verdicts[pair.path].ok):
            result.verdicts[pair.path] = verdict


def _spread_verdict(pair: Pair, second: torch.Tensor) -> LeafVerdict:
    nothing_to_compare = LeafVerdict(pair.path, "spread", elements=pair.eager.numel(), compared=False)
    if not is_floating(pair.eager):
        return nothing_to_compare
    if all_finite(pair.eager) and not all_finite(second):
        return nothing_to_compare
    # The allowed difference from the first eager run is based on the difference between the two eager runs.
    found = errors(eager=second, compiled=pair.compiled, truth=pair.eager)
    if found.rms_eager > rule.MEANINGLESS * found.rms_reference:
        return nothing_to_compare
    limit = rule.SPREAD * max(found.max_eager, rule.eps(pair.eager.dtype) * found.rms_reference)
    by_rounding = rule.alone(pair.eager.dtype, root_mean_square(pair.eager))
    of_eager = difference(pair.eager, second, by_rounding.rtol, by_rounding.atol).worst
    measures = (Measured("largest error", found.max_compiled, limit),)
    return _at(found.worst, replace(nothing_to_compare, measures=measures, compared=of_eager.ratio <= 1), pair)


def _judge_by_perturbed_rounding(
    failing: Sequence[Pair], truth: Values, extra_runs: ExtraRuns, result: Judgement
) -> None:
    """Widen the limits of the ``failing`` pairs, because errors that also occur in eager with perturbed rounding are
    acceptable.

    A gate, such as a ReLU, is switched by an error if its input is close enough to zero. A switched gate changes
    gradients by far more than the error, and each run switches only a few gates. Therefore, gradients that still fail
    are judged again with larger perturbations, which switch more of the gates that compiled code may switch.
    """
    candidates = [
        _PerturbedLimits(pair, result.verdicts[pair.path], truth)
        for pair in failing
        if math.isfinite(result.verdicts[pair.path].worst.ratio) or pair.eager.dtype is torch.float16
    ]
    for start_runs in (extra_runs.perturbed, extra_runs.strongly_perturbed):
        for number, run in enumerate(filter(None, map(_values, start_runs())) if candidates else (), 1):
            for candidate in candidates:
                result.verdicts[candidate.pair.path] = candidate.after(run.get(candidate.pair.path))
            candidates = [candidate for candidate in candidates if not candidate.verdict.ok]
            # Once one pair is hopeless, the call fails regardless of the other pairs, so stop.
            if not candidates or (number >= rule.PATIENCE and any(candidate.is_hopeless for candidate in candidates)):
                return
        if any(candidate.pair.section not in GRADIENTS for candidate in candidates):
            return


class _PerturbedLimits:
    """A failing pair of tensors, whose limits are widened by each eager run with perturbed rounding."""

    def __init__(self, pair: Pair, verdict: LeafVerdict, truth: Values) -> None:
        self.pair, self.verdict, self._before = pair, verdict, verdict
        self._truth = truth[pair.path] if verdict.rule == "fp64" else pair.eager
        self._runs: list[Errors] = []
        # Near the largest fp16 number, a difference of one ulp decides whether a value is infinite.
        self._overflow = Overflow(pair.eager) if math.isinf(verdict.worst.ratio) else None

    def after(self, run: torch.Tensor | None) -> LeafVerdict:
        """Update the tensor's result after an eager run with perturbed rounding, and return the result. The result is
        unchanged if the run does not contain this tensor, or if the eager runs so far do not explain which elements
        overflow in compiled code.
        """
        eager, compiled = self.pair.eager, self.pair.compiled
        if run is None or run.shape != eager.shape or run.dtype != eager.dtype:
            return self.verdict
        if self._overflow is not None:
            self._overflow.add(run)
            if not self._overflow.explains(compiled):
                return self.verdict
        self._runs.append(errors(eager=run, compiled=compiled, truth=self._truth))
        if self._before.rule == "fp64":
            measures = rule.widened(self._before.measures, self._runs, gradient=self.pair.section in GRADIENTS)
        else:
            measures = rule.widened_alone(self._runs)
        self.verdict = replace(
            self._before,
            measures=tuple(measures),
            large_error=_large_error(self.pair, self._runs[0]),
            nonfinite=False,
            perturbed_runs=len(self._runs),
        )
        return self.verdict

    @property
    def is_hopeless(self) -> bool:
        """Whether additional runs are unlikely to make the pair pass."""
        gradient = self.pair.section in GRADIENTS
        return self.verdict.worst.ratio > (rule.HOPELESS_GRADIENT if gradient else rule.HOPELESS)


class Overflow:
    """A record of the elements that are finite in at least one eager run, of the elements that are finite in all eager
    runs, and of the elements that are close to the largest number in at least one eager run.
    """

    def __init__(self, eager: torch.Tensor) -> None:
        self._sometimes = self._always = eager.isfinite()
        self._close, self._sign = _close_to_overflow(eager), eager.sign()

    def add(self, run: torch.Tensor) -> None:
        """Record the elements of another eager run."""
        finite = run.isfinite()
        self._sometimes, self._always = self._sometimes | finite, self._always & finite
        self._close = self._close | _close_to_overflow(run)

    def explains(self, compiled: torch.Tensor) -> bool:
        """Return whether, for each element, at least one eager run agrees with the compiled run on whether the element
        is finite. An element that is close to the largest number in one run may be infinite in another run, with the
        same sign.
        """
        same_sign = compiled.sign() == self._sign
        may_be_finite = self._sometimes | (_close_to_overflow(compiled) & same_sign)
        may_be_infinite = ~self._always | (self._close & compiled.isinf() & same_sign)
        return bool(torch.where(compiled.isfinite(), may_be_finite, may_be_infinite).all())


def _close_to_overflow(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.isfinite() & (tensor.abs() > rule.CLOSE_TO_OVERFLOW * torch.finfo(tensor.dtype).max)
