"""Leaves judged one after the other: by tolerance, against fp64, by eager's own spread and by other roundings."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import torch

from . import rule
from .measure import Difference, Errors, bitwise_equal, difference, element, errors, is_floating, root_mean_square
from .rule import Level, Measured
from .tolerances import Tolerances

Values = Mapping[str, torch.Tensor]
Scalar = float | complex | int | bool


@dataclass
class LeafVerdict:
    """One leaf's verdict. ``ratio`` is the measured error over its limit; ``index`` is the worst element's.

    ``compared`` is False where eager differs from itself by more than rounding, so that ``ok`` proves little.
    ``other_roundings`` counts the eager runs with disturbed rounding that had a say in the limit.
    """

    path: str
    ok: bool
    rule: Literal["tolerance", "fp64", "spread"] = "tolerance"
    measure: str = "error"
    error: float = 0.0
    limit: float = 0.0
    ratio: float = 0.0
    index: tuple[int, ...] = ()
    eager: Scalar | None = None
    compiled: Scalar | None = None
    reference: Scalar | None = None
    differing: int = 0
    elements: int = 0
    note: str = ""
    measures: tuple[Measured, ...] = ()
    other_roundings: int = 0
    compared: bool = True


@dataclass
class Pair:
    """One leaf of both legs, as plain dense tensors of equal shape and dtype."""

    path: str
    section: str
    eager: torch.Tensor
    compiled: torch.Tensor


@dataclass
class Judgement:
    """All verdicts of a call, and what had to be asked for them."""

    verdicts: dict[str, LeafVerdict] = field(default_factory=dict)
    reference: Literal["not needed", "fp64", "spread of two eager runs"] = "not needed"
    nondeterministic: bool = False


def judge(
    pairs: Sequence[Pair],
    reference: Callable[[], Values | None],
    repeat: Callable[[], Values | None],
    tolerances: Tolerances,
    shaken: Callable[[], Iterable[Values]] = tuple,
) -> Judgement:
    """Judge every pair; ask for the fp64 run and for further eager runs only where a leaf needs them."""
    result = Judgement({pair.path: by_tolerance(pair, tolerances) for pair in pairs})
    failing = [pair for pair in pairs if not result.verdicts[pair.path].ok]
    ruled = [p for p in failing if is_floating(p.eager) and not tolerances.given_for(p.path, p.eager.dtype)]
    values: Values | None = None
    if ruled:
        values = reference()
        result.reference = "spread of two eager runs" if values is None else "fp64"
        result.verdicts.update(_by_reference(pairs, ruled, values or {}, result.verdicts))
    failing = [pair for pair in failing if not result.verdicts[pair.path].ok]
    asked = [pair for pair in failing if not tolerances.given_for(pair.path, pair.eager.dtype)]
    if asked:
        _judge_by_spread(asked, repeat, result)
    failing = [pair for pair in ruled if not result.verdicts[pair.path].ok]
    if failing:
        _judge_by_other_roundings(failing, values or {}, shaken(), result.verdicts)
    return result


def by_tolerance(pair: Pair, tolerances: Tolerances) -> LeafVerdict:
    """The verdict without a reference: equality, the user's tolerance, or the one that is never wrong."""
    if bitwise_equal(pair.eager, pair.compiled):
        return LeafVerdict(pair.path, True, elements=pair.eager.numel())
    if not is_floating(pair.eager):
        return _unequal(pair)
    given = tolerances.given_for(pair.path, pair.eager.dtype)
    tolerance = given or rule.near(pair.eager.dtype, root_mean_square(pair.eager))
    return _verdict_of_difference(pair, difference(pair.eager, pair.compiled, tolerance.rtol, tolerance.atol))


def _unequal(pair: Pair) -> LeafVerdict:
    found = difference(pair.eager, pair.compiled, 0.0, 0.0)
    index, eager = element(pair.eager, found.index)
    compiled = element(pair.compiled, found.index)[1]
    return LeafVerdict(
        pair.path, False, "tolerance", "difference", found.error, 0.0, math.inf, index, eager, compiled,
        differing=found.differing, elements=pair.eager.numel(),
    )  # fmt: skip


def _verdict_of_difference(pair: Pair, found: Difference) -> LeafVerdict:
    at = found.index if found.nonfinite is None else found.nonfinite
    index, eager = element(pair.eager, at)
    verdict = LeafVerdict(
        pair.path, found.ratio <= 1 and found.nonfinite is None, "tolerance", "error", found.error, found.limit,
        found.ratio, index, eager, element(pair.compiled, at)[1], differing=found.differing,
        elements=pair.eager.numel(),
    )  # fmt: skip
    if found.nonfinite is not None:
        verdict.ratio, verdict.note = math.inf, "NaN or infinity at different places"
    return verdict


def _by_reference(
    pairs: Sequence[Pair], open_pairs: Sequence[Pair], values: Values, verdicts: Mapping[str, LeafVerdict]
) -> dict[str, LeafVerdict]:
    measured = {pair.path: _errors(pair, values) for pair in pairs if verdicts[pair.path].differing}
    sections: dict[str, list[Errors]] = {}
    for pair in pairs:
        found = measured.get(pair.path)
        if found is not None:
            sections.setdefault(pair.section, []).append(found)
    levels = {section: Level.of(found) for section, found in sections.items()}
    everything = Level.of(e for found in sections.values() for e in found)
    # Gradients can be all rounding error and still be right; whether fp64 computed the same thing shows in the outputs.
    # Outputs that are bitwise equal were not measured: they say nothing against the reference.
    compared = any(pair.section == "output" for pair in pairs)
    forward = levels.get("output", Level() if compared else everything)
    return {
        pair.path: _judge_one(
            pair,
            verdicts[pair.path],
            None if forward.is_unrelated(pair.eager.dtype) else measured.get(pair.path),
            values,
            levels.get(pair.section, everything),
        )
        for pair in open_pairs
    }


def _errors(pair: Pair, values: Values) -> Errors | None:
    true = values.get(pair.path)
    usable = true is not None and is_floating(pair.eager) and is_floating(true) and true.shape == pair.eager.shape
    if not usable or true is None or true.dtype.is_complex != pair.eager.dtype.is_complex:
        return None
    found = errors(pair.eager, pair.compiled, true)
    return found if found.count else None


def _judge_one(
    pair: Pair,
    verdict: LeafVerdict,
    found: Errors | None,
    values: Values,
    level: Level,
) -> LeafVerdict:
    if math.isinf(verdict.ratio) and verdict.note:
        return verdict
    if found is None:
        tolerance = rule.alone(pair.eager.dtype, root_mean_square(pair.eager))
        return _verdict_of_difference(pair, difference(pair.eager, pair.compiled, tolerance.rtol, tolerance.atol))
    measures = rule.against_reference(found, pair.eager.dtype, level)
    return _verdict_of_measures(pair, verdict, found, values[pair.path], measures)


def _verdict_of_measures(
    pair: Pair, verdict: LeafVerdict, found: Errors, true: torch.Tensor, measures: Sequence[Measured]
) -> LeafVerdict:
    worst = max(measures, key=lambda measure: measure.ratio)
    index, eager = element(pair.eager, found.worst)
    return LeafVerdict(
        pair.path, worst.ratio <= 1, "fp64", worst.name, worst.error, worst.limit, worst.ratio, index, eager,
        element(pair.compiled, found.worst)[1], element(true, found.worst)[1], verdict.differing, verdict.elements,
        measures=tuple(measures),
    )  # fmt: skip


def _judge_by_spread(asked: Sequence[Pair], repeat: Callable[[], Values | None], result: Judgement) -> None:
    _dirty_free_memory(asked)
    again = repeat() or {}
    for pair in asked:
        second = again.get(pair.path)
        if second is None or second.shape != pair.eager.shape or bitwise_equal(pair.eager, second):
            continue
        result.nondeterministic = True
        result.verdicts[pair.path] = _spread_verdict(pair, second)


def _judge_by_other_roundings(
    failing: Sequence[Pair], values: Values, runs: Iterable[Values], verdicts: dict[str, LeafVerdict]
) -> None:
    """What eager reaches itself when its rounding is disturbed is no mistake: such runs may widen a leaf's limits."""
    failing = [p for p in failing if math.isfinite(verdicts[p.path].ratio) or p.eager.dtype is torch.float16]
    first = {pair.path: verdicts[pair.path] for pair in failing}
    found: dict[str, list[Errors]] = {pair.path: [] for pair in failing}
    overflows = {pair.path: Overflow(pair.eager) for pair in failing if math.isinf(verdicts[pair.path].ratio)}
    for number, run in enumerate(runs if failing else (), 1):
        for pair in failing:
            other = run.get(pair.path)
            if other is not None and other.shape == pair.eager.shape and other.dtype == pair.eager.dtype:
                if pair.path in overflows and not overflows[pair.path].reaches(pair.compiled, other):
                    continue
                true = values[pair.path] if first[pair.path].rule == "fp64" else pair.eager
                found[pair.path].append(errors(other, pair.compiled, true))
                verdicts[pair.path] = _widened(pair, first[pair.path], found[pair.path])
                if pair.path in overflows:
                    verdicts[pair.path].note = "fp16 overflows, and where is decided by rounding"
        failing = [pair for pair in failing if not verdicts[pair.path].ok]
        if not failing or (number >= rule.PATIENCE and any(_hopeless(p, verdicts[p.path]) for p in failing)):
            return


class Overflow:
    """Where eager overflows, with whatever rounding: near the largest number of fp16, a step decides."""

    def __init__(self, eager: torch.Tensor) -> None:
        self._sometimes = self._always = eager.isfinite()

    def reaches(self, compiled: torch.Tensor, other: torch.Tensor) -> bool:
        """Whether one run more makes compiled finite, and not finite, only where some run of eager was so too."""
        finite = other.isfinite()
        self._sometimes, self._always = self._sometimes | finite, self._always & finite
        return bool(torch.where(compiled.isfinite(), self._sometimes, ~self._always).all())


def _hopeless(pair: Pair, verdict: LeafVerdict) -> bool:
    return verdict.ratio > (rule.HOPELESS_GRADIENT if _is_gradient(pair) else rule.HOPELESS)


def _is_gradient(pair: Pair) -> bool:
    return pair.section in ("grad", "input grad")


def _widened(pair: Pair, first: LeafVerdict, runs: Sequence[Errors]) -> LeafVerdict:
    if first.rule == "fp64":
        measures = rule.widened(first.measures, runs, gradient=_is_gradient(pair))
    else:
        measures = rule.widened_alone(runs)
    worst = max(measures, key=lambda measure: measure.ratio)
    return replace(
        first, ok=worst.ratio <= 1, measure=worst.name, error=worst.error, limit=worst.limit, ratio=worst.ratio,
        measures=tuple(measures), other_roundings=len(runs),
    )  # fmt: skip


def _dirty_free_memory(asked: Sequence[Pair]) -> None:
    """Leave other bytes in the blocks a second run will be given, so that uninitialised memory shows itself."""
    dirty = [
        torch.full_like(pair.eager.detach(), 85) for pair in asked for _ in range(3) if pair.eager.numel() < 1 << 20
    ]
    del dirty


def _spread_verdict(pair: Pair, second: torch.Tensor) -> LeafVerdict:
    base = LeafVerdict(pair.path, True, "spread", elements=pair.eager.numel(), compared=False)
    if not is_floating(pair.eager):
        return base
    # Eager's second run takes the place of the reference: its distance from the first is what is allowed.
    if not bool(second.isfinite().all()) and bool(pair.eager.isfinite().all()):
        return base
    found = errors(second, pair.compiled, pair.eager)
    if found.rms_eager > rule.MEANINGLESS * found.rms_reference:
        base.note = "eager differs from itself as much as the values are large: nothing to compare"
        return base
    index, eager = element(pair.eager, found.worst)
    limit = rule.SPREAD * max(found.max_eager, rule.eps(pair.eager.dtype) * found.rms_reference)
    worst = Measured("largest error", found.max_compiled, limit)
    by_rounding = rule.alone(pair.eager.dtype, root_mean_square(pair.eager))
    own = difference(pair.eager, second, by_rounding.rtol, by_rounding.atol)
    return LeafVerdict(
        pair.path, worst.ratio <= 1, "spread", worst.name, worst.error, worst.limit, worst.ratio, index, eager,
        element(pair.compiled, found.worst)[1], None, elements=pair.eager.numel(), compared=own.ratio <= 1,
    )  # fmt: skip
