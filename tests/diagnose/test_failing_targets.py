"""What a diagnosis says of failing targets, against the labels that a person gave them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import pytest

torch = pytest.importorskip("torch")

from pytest_torch_compile import CompileCheckFailed, CompileReport  # noqa: E402
from tests.diagnose.failing import breaks, custom_ops, deep, recompiles, wrong_results  # noqa: E402, F401
from tests.diagnose.failing.record import CATALOGUE, Check, Failing  # noqa: E402

pytestmark = pytest.mark.slow

TARGETS = [one for one in CATALOGUE if one.on_this_torch]
LABELLED_FIXES = [(one, words) for one in TARGETS for words in one.fixes]
# Shares that the project promises; "fix" is of the targets that have one.
PROMISED = {"cause": 0.95, "stage": 0.95, "module": 0.90, "fix": 0.80, "no vain advice": 1.0}


def failed_report(check: Check, level: str) -> CompileReport:
    with pytest.raises(CompileCheckFailed) as failed:
        check.run(diagnose=level)
    return failed.value.report


def causes(report: CompileReport, kind: str) -> set[str]:
    """What the report's data give as the cause: of guards, breaks, fallbacks or errors."""
    if kind == "recompile":
        return {recompile.guards[0].cause for recompile in report.recompiles if recompile.guards}
    if kind == "graph-break":
        return {one.category for one in report.graph_breaks}
    if kind == "eager-fallback":
        return {one.cause or one.why for one in report.fallbacks}
    return {one.error for one in report.observation.errors}


def advice(report: CompileReport) -> list[str]:
    return [line for line in report.diagnosis if line.startswith("tried")]


@dataclass(frozen=True)
class Judged:
    """One target, what was said of it in each respect, and whether that is right; a respect without a label is absent."""

    target: Failing
    said: dict[str, str]
    right: dict[str, bool]


def judged(target: Failing) -> Judged:
    report = failed_report(target.build(), "full")
    lines, fault = advice(report), report.fault
    said, right = {}, {}
    if target.cause:
        said_causes = causes(report, target.kind)
        said["cause"] = ", ".join(sorted(said_causes))
        right["cause"] = said_causes <= set(target.causes) and bool(said_causes)
    if target.stage or fault.stage:
        said["stage"], right["stage"] = fault.stage, fault.stage == target.stage
    if target.module is not None and (any(target.modules) or fault.module):
        said["module"], right["module"] = fault.module, fault.module in target.modules
    if target.fixes:
        said["fix"] = " | ".join(lines)
        right["fix"] = any(words in line for words in target.fixes for line in lines)
    if target.innocent:
        said["no vain advice"], right["no vain advice"] = " | ".join(lines), not lines
    return Judged(target, said, right)


def label(target: Failing, respect: str) -> str:
    labels = {"cause": " or ".join(target.causes), "stage": target.stage, "module": " or ".join(target.modules)}
    return labels.get(respect, " or ".join(target.fixes))


def table_of_misses(results: Sequence[Judged]) -> str:
    rows = [
        f"{one.target.name}: {respect} is {one.said[respect]!r}, right is {label(one.target, respect)!r}"
        for one in results
        for respect, right in one.right.items()
        if not right
    ]
    return "\n".join(rows)


def share(rights: Iterable[bool]) -> float:
    rights = list(rights)
    return sum(rights) / len(rights) if rights else 1.0


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
def test_target_fails_as_labelled(target):
    kinds = {finding.kind for finding in failed_report(target.build(), "off").findings}
    assert target.kind in kinds
    assert kinds <= {target.kind} | target.also


@pytest.mark.parametrize(
    ("target", "words"), LABELLED_FIXES, ids=[f"{one.name}-{words}" for one, words in LABELLED_FIXES]
)
def test_labelled_fix_holds(target, words):
    assert target.fixes[words](target.build()).run().ok


def test_diagnosis_is_right_as_often_as_promised(capsys):
    results = [judged(target) for target in TARGETS]
    shares = {respect: [one.right[respect] for one in results if respect in one.right] for respect in PROMISED}
    with capsys.disabled():
        print(f"\n{table_of_misses(results)}")
        for respect, rights in shares.items():
            print(f"{respect}: {sum(rights)} of {len(rights)} right")
    assert {respect for respect, rights in shares.items() if share(rights) < PROMISED[respect]} == set()
