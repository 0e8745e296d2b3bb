"""The stand-ins for a card: where they are refused, and what a machine may lack for them."""

from __future__ import annotations

import pytest

from pytest_torch_compile import CompileUsageError, check_plan
from pytest_torch_compile._torch import planning
from pytest_torch_compile.plan.cards import CARDS


def test_stand_ins_are_refused_in_a_process_that_does_something_else() -> None:
    with pytest.raises(RuntimeError, match="only in a process that was started for planning"):
        planning.put_all(CARDS["H100"], print)


def test_an_older_torch_is_refused_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planning.torch, "__version__", "2.8.0+cu128")
    assert planning.missing() == "plans require torch 2.11 or newer, but this is torch 2.8.0+cu128"


def test_a_plan_says_what_the_machine_lacks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planning, "find_spec", lambda name: None)
    monkeypatch.setattr(planning, "OLDEST", planning.Version("2.0"))
    with pytest.raises(
        CompileUsageError, match=r"this machine cannot create a plan: (Triton is not installed|torch .* CUDA)"
    ):
        check_plan(abs, 1)
