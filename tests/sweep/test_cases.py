"""What the sweep runs."""

from __future__ import annotations

import pytest

for library in ("torchvision", "transformers"):
    pytest.importorskip(library)

from benchmarks.sweep.cases import FOLDERS, IN_INDUCTOR, TESTS, cases  # noqa: E402


def test_models_chosen_for_inductor_exist():
    names = {model.name for models in FOLDERS.values() for model in models}
    assert set().union(*IN_INDUCTOR.values()) <= names


def test_those_and_no_others_go_through_inductor():
    inductor = {name.split("/")[1] for name, (_, backend) in cases().items() if backend == "inductor"}
    assert inductor == {f"{m} {test}" for test in TESTS if "inductor" in test for m in IN_INDUCTOR[TESTS[test].suite]}
