"""One check by the checker as users see it, and by its rivals, on the same legs."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any
from unittest import mock

import torch

from pytest_torch_compile import CompileCheckFailed, call, check_compile
from pytest_torch_compile.check import both_legs
from pytest_torch_compile.numerics import CallRecord, ExtraRuns, Tolerances, compare_call, rule
from pytest_torch_compile.numerics.measure import Errors, bitwise_equal, errors, is_floating
from pytest_torch_compile.numerics.sections import plain_values
from pytest_torch_compile.report.failure_text import headline
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


def judged(module: torch.nn.Module, inputs: dict[str, Any], train: bool, *, record: bool = False, **how: Any) -> Judged:
    """Check ``module`` on one call; ``how`` says what compiles it. ``record`` keeps the measures of the leaves."""
    result = Judged()
    item = call(**inputs) if train else call(**inputs).under(torch.no_grad)
    started = time.perf_counter()
    with mock.patch.object(both_legs, "compare_call", _listening(result, record)):
        try:
            report = check_compile(module, calls=[item], train=train, **how)
            findings = report.findings
        except CompileCheckFailed as failure:
            findings = list(failure.findings)
    result.seconds = time.perf_counter() - started
    result.findings = [f"{f.kind}: {headline(f)}" for f in findings if f.kind in JUDGED]
    if result.compiled is not None and result.compiled.error is not None:
        result.crashed = repr(result.compiled.error)[:300]
    elif result.eager is not None and result.compiled is not None:
        result.assert_close = assert_close_passes(result.eager, result.compiled)
        result.same = same_passes(result.eager, result.compiled, lambda: result.reference)
    else:
        result.crashed = "; ".join(f"{f.kind}: {headline(f)}" for f in findings)[:300] or "no comparison"
    return result


def _listening(result: Judged, record: bool) -> Callable[..., Any]:
    def listen(eager: CallRecord, compiled: CallRecord, extra_runs: ExtraRuns, tolerances: Tolerances) -> Any:
        started = time.perf_counter()
        found = compare_call(eager, compiled, extra_runs, tolerances)
        result.comparing = time.perf_counter() - started
        result.eager, result.compiled, result.ratio = eager, compiled, min(found.worst_ratio, 1e9)
        result.reference = extra_runs.float64()
        if record:
            result.measured = _measured(result, found)
        return found

    return listen


def _measured(result: Judged, comparison: Any) -> list[dict[str, Any]]:
    """The measures of the leaves that stand out, and their limits: to choose constants by."""
    if result.reference is None or result.eager is None or result.compiled is None:
        return []
    eager, compiled, true = (plain_values(r) for r in (result.eager, result.compiled, result.reference))
    names = [
        n for n in eager if n in true and n in compiled and is_floating(eager[n]) and true[n].shape == compiled[n].shape
    ]
    found = {
        n: errors(eager=eager[n], compiled=compiled[n], truth=true[n])
        for n in names
        if not bitwise_equal(eager[n], compiled[n])
    }
    levels = {part: rule.Level.of(found[n] for n in found if _part(n) == part) for part in map(_part, found)}
    verdicts = {leaf.path: leaf for leaf in comparison.leaves}
    return [
        {
            "leaf": n, "dtype": str(eager[n].dtype), **{k: _short(v) for k, v in vars(e).items()},
            "relative": _short(levels[_part(n)].relative), "scale": _short(levels[_part(n)].scale),
            "perturbed runs": verdicts[n].perturbed_runs,
            "measures": [(m.name, _short(m.error), _short(m.limit)) for m in verdicts[n].measures],
        }
        for n, e in found.items()
        if n in verdicts and _stands_out(e)
    ]  # fmt: skip


def _part(name: str) -> str:
    """The section of a leaf's path."""
    return "input grad" if name.startswith("grad of argument") else name.split(" ")[0].split(".")[0].split("[")[0]


def _stands_out(found: Errors) -> bool:
    return (
        found.rms_compiled > 1.1 * found.rms_eager
        or found.max_compiled > 1.5 * found.max_eager
        or found.channel_compiled > 1.3 * found.channel_eager
        or abs(found.slope_compiled) > 2 * abs(found.slope_eager)
    )


def _short(value: float) -> float:
    return float(f"{value:.4g}")


def equal_legs(left: CallRecord, right: CallRecord) -> bool:
    """Whether two runs gave the same bits everywhere, the random generators included."""
    one, two = plain_values(left), plain_values(right)
    streams = all(torch.equal(left.rng[device], right.rng[device]) for device in left.rng)
    return streams and one.keys() == two.keys() and all(bitwise_equal(one[name], two[name]) for name in one)
