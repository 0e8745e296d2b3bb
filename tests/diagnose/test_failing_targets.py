"""What a diagnosis says of failing targets, against the labels that a person gave them.

`python -m pytest tests/diagnose/test_failing_targets.py -s` prints what is said of each, and a table of what is wrong.
With `DIAGNOSIS_RECORDS=FILE` a run that was cut off, or was one part of several, goes on where it ended.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("torchvision")
pytest.importorskip("transformers")

from tests.diagnose.failing import breaks, custom_ops, deep, recompiles, skipped, wrong_results  # noqa: E402, F401
from tests.diagnose.failing.record import CATALOGUE, Failing  # noqa: E402
from tests.diagnose.failing.said import Said, records, said_of  # noqa: E402

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


def answers(target: Failing, said: Said) -> dict[str, Answer]:
    """A respect that the label says nothing of is left out."""
    return {**located(target, said), **advised(target, said)}


def located(target: Failing, said: Said) -> dict[str, Answer]:
    answers = {}
    if target.cause:
        right = bool(said.causes) and set(said.causes) <= set(target.causes)
        answers["cause"] = Answer(", ".join(said.causes), " or ".join(target.causes), right)
    if target.stage or said.stage:
        answers["stage"] = Answer(said.stage, target.stage, said.stage == target.stage)
    if target.module is not None and (target.module or said.module):
        answers["module"] = Answer(said.module, " or ".join(target.modules), said.module in target.modules)
    return answers


def advised(target: Failing, said: Said) -> dict[str, Answer]:
    unknown = [line for line in said.advice if not any(words in line for words in target.fixes)]
    told, label = " | ".join(said.advice), " or ".join(target.fixes)
    if target.innocent:
        return {"no vain advice": Answer(told, "nothing", not said.advice)}
    answers = {"only labelled advice": Answer(" | ".join(unknown), label, not unknown)} if said.advice else {}
    return {**answers, "fix": Answer(told, label, len(unknown) < len(said.advice))} if target.fixes else answers


def lines(name: str) -> list[str]:
    return [
        f"{'right' if one.right else 'WRONG'}  {name}: {respect} is {one.said!r}, the label {one.label!r}"
        for respect, one in answers(TARGETS[name], said_of(TARGETS[name])).items()
    ]


def shares(results: Sequence[dict[str, Answer]]) -> dict[str, tuple[int, int]]:
    """How many are right in each respect, and of how many."""
    given = {respect: [one[respect].right for one in results if respect in one] for respect in PROMISED}
    return {respect: (sum(right), len(right)) for respect, right in given.items()}


@pytest.mark.parametrize("name", TARGETS)
def test_target_fails_as_labelled(name):
    target = TARGETS[name]
    kinds = set(said_of(target).kinds)
    print("\n".join(["", *lines(name)]))
    assert target.kind in kinds
    assert kinds <= {target.kind} | target.also


@pytest.mark.parametrize(("name", "words"), FIXES)
def test_labelled_fix_holds(name, words):
    target = TARGETS[name]
    assert target.fixes[words](target.build()).run().ok


def test_catalogue_is_large_enough():
    assert len(TARGETS) >= 44
    assert sum(one.innocent for one in TARGETS.values()) >= 10


def test_diagnosis_is_right_as_often_as_promised(capsys):
    known = records()
    missing = [name for name in TARGETS if name not in known]
    if missing:
        pytest.skip(f"{len(missing)} of {len(TARGETS)} targets were not run before this test in this process")
    counted = shares([answers(target, known[name]) for name, target in TARGETS.items()])
    wrong = [line for name in TARGETS for line in lines(name) if line.startswith("WRONG")]
    table = [*wrong, *(f"{respect}: {right} of {count} right" for respect, (right, count) in counted.items())]
    with capsys.disabled():
        print("\n".join(["", *table]))
    assert [respect for respect, (right, count) in counted.items() if right < PROMISED[respect] * count] == []
