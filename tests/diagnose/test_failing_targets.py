"""What a diagnosis says of failing targets, against the labels that a person gave them.

`python -m pytest tests/diagnose/test_failing_targets.py -s` prints what is said of each, and a table of what is wrong.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("torchvision")
pytest.importorskip("transformers")

from pytest_torch_compile import CompileCheckFailed, CompileReport  # noqa: E402
from tests.diagnose.failing import breaks, custom_ops, deep, recompiles, wrong_results  # noqa: E402, F401
from tests.diagnose.failing.record import CATALOGUE, Failing  # noqa: E402

pytestmark = pytest.mark.slow

TARGETS = {one.name: one for one in CATALOGUE if one.on_this_torch}
FIXES = [(name, words) for name, one in TARGETS.items() for words in one.fixes]
# "fix" is of the targets that have one, "no vain advice" of those that nothing helps. Advice that no label names is
# wrong until the catalogue has it, with the target after it was followed.
PROMISED = {
    "cause": 0.95,
    "stage": 0.95,
    "module": 0.90,
    "fix": 0.80,
    "only labelled advice": 1.0,
    "no vain advice": 1.0,
}


@dataclass(frozen=True)
class Answer:
    """What was said of one target in one respect, and what is right."""

    said: str
    label: str
    right: bool


@dataclass(frozen=True)
class Judged:
    """One target; a respect that its label says nothing of is left out."""

    kinds: frozenset[str]
    answers: dict[str, Answer]

    def lines(self, name: str) -> list[str]:
        return [
            f"{'right' if one.right else 'WRONG'}  {name}: {respect} is {one.said!r}, the label {one.label!r}"
            for respect, one in self.answers.items()
        ]


@functools.cache
def judged(name: str) -> Judged:
    target = TARGETS[name]
    with pytest.raises(CompileCheckFailed) as failed:
        target.build().run(diagnose="full")
    report = failed.value.report
    kinds = frozenset(finding.kind for finding in report.findings)
    return Judged(kinds, {**located(target, report), **advised(target, report)})


def located(target: Failing, report: CompileReport) -> dict[str, Answer]:
    answers = {}
    if target.cause:
        said = causes(report, target.kind)
        right = bool(said) and said <= set(target.causes)
        answers["cause"] = Answer(", ".join(sorted(said)), " or ".join(target.causes), right)
    if target.stage or report.fault.stage:
        answers["stage"] = Answer(report.fault.stage, target.stage, report.fault.stage == target.stage)
    if target.module is not None and (target.module or report.fault.module):
        right = report.fault.module in target.modules
        answers["module"] = Answer(report.fault.module, " or ".join(target.modules), right)
    return answers


def causes(report: CompileReport, kind: str) -> set[str]:
    """What the report's data give as the cause: the guard, the category of a break, the op of a wrong result."""
    if kind == "recompile":
        return {recompile.guards[0].cause for recompile in report.recompiles if recompile.guards}
    if kind == "graph-break":
        return {one.category for one in report.graph_breaks}
    if kind == "eager-fallback":
        return {one.cause for one in report.fallbacks}
    return {name for op in report.fault.op.split(", ") if (name := op.removeprefix("aten.").split(".")[0])}


def advised(target: Failing, report: CompileReport) -> dict[str, Answer]:
    lines = [line for line in report.diagnosis if line.startswith("tried") or line.endswith("(tried)")]
    unknown = [line for line in lines if not any(words in line for words in target.fixes)]
    said, label = " | ".join(lines), " or ".join(target.fixes)
    if target.innocent:
        return {"no vain advice": Answer(said, "nothing", not lines)}
    answers = {"only labelled advice": Answer(" | ".join(unknown), label, not unknown)} if lines else {}
    return {**answers, "fix": Answer(said, label, len(unknown) < len(lines))} if target.fixes else answers


def shares(results: Sequence[Judged]) -> dict[str, tuple[int, int]]:
    """How many are right in each respect, and of how many."""
    answers = {respect: [one.answers[respect] for one in results if respect in one.answers] for respect in PROMISED}
    return {respect: (sum(one.right for one in given), len(given)) for respect, given in answers.items()}


@pytest.mark.parametrize("name", TARGETS)
def test_target_fails_as_labelled(name):
    result, target = judged(name), TARGETS[name]
    print("\n".join(["", *result.lines(name)]))
    assert target.kind in result.kinds
    assert result.kinds <= {target.kind} | target.also


@pytest.mark.parametrize(("name", "words"), FIXES)
def test_labelled_fix_holds(name, words):
    target = TARGETS[name]
    assert target.fixes[words](target.build()).run().ok


def test_catalogue_is_large_enough():
    assert len(TARGETS) >= 44
    assert sum(one.innocent for one in TARGETS.values()) >= 10


def test_diagnosis_is_right_as_often_as_promised(capsys):
    results = {name: judged(name) for name in TARGETS}
    counted = shares(list(results.values()))
    wrong = [line for name, one in results.items() for line in one.lines(name) if line.startswith("WRONG")]
    table = [*wrong, *(f"{respect}: {right} of {count} right" for respect, (right, count) in counted.items())]
    with capsys.disabled():
        print("\n".join(["", *table]))
    assert [respect for respect, (right, count) in counted.items() if right < PROMISED[respect] * count] == []
