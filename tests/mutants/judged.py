"""One check by the checker as users see it, and by its rivals, on the same legs."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any
from unittest import mock

import torch

import pytest_torch_compile.check as checker
from pytest_torch_compile import CompileCheckFailed, call, check_compile
from pytest_torch_compile.numerics import CallRecord, compare_calls, rule
from pytest_torch_compile.numerics.measure import bitwise_equal, root_mean_square
from pytest_torch_compile.numerics.sections import plain_values
from tests.mutants.rivals import assert_close_passes, same_passes

JUDGED = ("numerics", "gradient", "mutation", "aliasing", "metadata", "exception")


@dataclass
class Judged:
    """What the checker and its rivals said, the legs they said it about, and the time each part took."""

    findings: list[str] = field(default_factory=list)
    assert_close: bool = True
    same: bool = True
    ratio: float = 0.0
    seconds: float = 0.0
    comparing: float = 0.0
    crashed: str = ""
    measured: list[dict[str, Any]] = field(default_factory=list)
    eager: CallRecord | None = None
    compiled: CallRecord | None = None
    reference: CallRecord | None = None


def judged(module: torch.nn.Module, inputs: dict[str, Any], train: bool, **how: Any) -> Judged:
    """Check ``module`` on one call; ``how`` says what compiles it."""
    result = Judged()
    item = call(**inputs) if train else call(**inputs).under(torch.no_grad)
    started = time.perf_counter()
    with mock.patch.object(checker, "compare_calls", _listening(result)), _measuring(result):
        try:
            report = check_compile(module, calls=[item], train=train, **how)
            findings = report.findings
        except CompileCheckFailed as failure:
            findings = list(failure.findings)
    result.seconds = time.perf_counter() - started
    result.findings = [f"{f.kind}: {f.message}" for f in findings if f.kind in JUDGED]
    if result.compiled is not None and result.compiled.error is not None:
        result.crashed = repr(result.compiled.error)[:300]
    elif result.eager is not None and result.compiled is not None:
        result.assert_close = assert_close_passes(result.eager, result.compiled)
        result.same = same_passes(result.eager, result.compiled, lambda: result.reference)
    else:
        result.crashed = "; ".join(f"{f.kind}: {f.message}" for f in findings)[:300] or "no comparison"
    return result


def _listening(result: Judged) -> Callable[..., Any]:
    def listen(eager: CallRecord, compiled: CallRecord, *, reference: Any, repeat: Any, tolerances: Any) -> Any:
        started = time.perf_counter()
        found = compare_calls(eager, compiled, reference=reference, repeat=repeat, tolerances=tolerances)
        result.comparing = time.perf_counter() - started
        result.eager, result.compiled, result.ratio = eager, compiled, min(found.worst_ratio, 1e9)
        result.reference = reference()
        return found

    return listen


def _measuring(result: Judged) -> Any:
    judge = rule.against_reference

    def measure(found: Any, dtype: torch.dtype, level: Any, **more: Any) -> Any:
        result.measured.append({**vars(found), "dtype": str(dtype), "level": level.relative, "scale": level.scale})
        return judge(found, dtype, level, **more)

    return mock.patch.object(rule, "against_reference", measure)


def equal_legs(left: CallRecord, right: CallRecord) -> bool:
    """Whether two runs gave the same bits everywhere, the random generators included."""
    one, two = plain_values(left), plain_values(right)
    streams = all(torch.equal(left.rng[device], right.rng[device]) for device in left.rng)
    return streams and one.keys() == two.keys() and all(bitwise_equal(one[name], two[name]) for name in one)


def signal(mutant: CallRecord, original: CallRecord, eager: CallRecord, reference: CallRecord | None) -> float:
    """The largest change a mutant makes to a leaf, in multiples of eager's own error there."""
    if reference is None:
        return float("inf")
    one, two, three, true = (plain_values(record) for record in (mutant, original, eager, reference))
    largest = 0.0
    for name in one:
        if name in true and one[name].dtype.is_floating_point and not bitwise_equal(one[name], two[name]):
            change = root_mean_square(one[name].double() - two[name].double())
            own = root_mean_square(three[name].double() - true[name])
            largest = max(largest, change / own if own else float("inf"))
    return largest


def fresh(module: torch.nn.Module) -> torch.nn.Module:
    """A copy that shares nothing."""
    return copy.deepcopy(module)
