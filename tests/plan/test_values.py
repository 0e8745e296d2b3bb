"""``check_plan(values=True)`` finds faults planted in generated kernels, and passes innocent code."""

from __future__ import annotations

import re

import pytest
import torch
from torch import nn

from pytest_torch_compile import CompileUsageError, Plan, call, check_plan
from pytest_torch_compile._torch.sandbox import sandbox
from pytest_torch_compile.legs.leg import Leg
from pytest_torch_compile.legs.work import Work
from pytest_torch_compile.numerics import flatten
from pytest_torch_compile.plan.recorder import SEED, Values
from pytest_torch_compile.plan.values import Judge
from tests.once import once
from tests.plan.faults import FAULTS
from tests.plan.innocents import CASES
from tests.plan.together import Case, plans_of

NO_VERDICT = {
    "random numbers inside attention": Case(
        nn.TransformerEncoderLayer(16, 2, 32, 0.5, batch_first=True), (torch.randn(2, 5, 16),), train=True
    ),
}


@once
def plans() -> dict[str, Plan]:
    planted = {f"fault: {name}": fault.case for name, fault in FAULTS.items()}
    return plans_of({**CASES, **planted, **NO_VERDICT}, values=True)


@pytest.mark.slow
@pytest.mark.parametrize("name", FAULTS)
def test_the_fault_is_found(plans: dict[str, Plan], name: str) -> None:
    fault, plan = FAULTS[name], plans[f"fault: {name}"]
    assert any(re.search(fault.pattern, code) for code in plan.code), "the fault was not planted:\n" + plan.code[0]
    assert {finding.kind for finding in plan.findings} & set(fault.kinds), str(plan)
    assert "backend='eager'" not in str(plan), "check_plan has no option of this name"


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_the_innocent_passes(plans: dict[str, Plan], name: str) -> None:
    assert plans[name].ok, str(plans[name])


@pytest.mark.slow
@pytest.mark.parametrize("name", NO_VERDICT)
def test_what_cannot_run_on_the_cpu_is_named(plans: dict[str, Plan], name: str) -> None:
    (finding,) = plans[name].findings
    assert finding.kind == "not-observable" and "random numbers inside a fused attention kernel" in finding.evidence


def test_values_are_judged_and_nothing_of_the_caller_changes() -> None:
    case = CASES["MLP, AdamW"]
    model = case.model
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    plan = check_plan(model, torch.randn(3, 24), values=True, train=True, optimizer=torch.optim.SGD)
    assert plan.ok and any("fallback_random" in choice for choice in plan.fixed)
    assert all(torch.equal(before[name], tensor) for name, tensor in model.state_dict().items())
    assert all(parameter.grad is None for parameter in model.parameters())


def test_values_need_tensors_with_values() -> None:
    with torch.device("meta"):
        model, x = nn.Linear(4, 4), torch.empty(2, 4)
    with pytest.raises(CompileUsageError, match="tensors have no values to compare"):
        check_plan(model, x, values=True)
    with pytest.raises(CompileUsageError, match="values=True needs a model and inputs on the CPU"):
        check_plan(nn.Linear(4, 4), x, values=True)


def test_a_reference_that_draws_other_random_numbers_is_reported() -> None:
    target, calls = torch.nn.Linear(4, 4), [call(torch.randn(2, 4)).under(torch.no_grad)]
    with sandbox():
        eager, planned = (Leg(Work(target, calls, False, None, seed=SEED), holds_records=True).run(0) for _ in range(2))
    eager.rng = {"cpu": torch.zeros_like(torch.get_rng_state())}
    (output,) = planned.output.tensors.values()
    planned.output = flatten(output + 1)
    judge = Judge(target, calls, False, None)
    assert {finding.kind for finding in judge.findings(Values([eager], [planned]), {})} == {"numerics"}
    assert any("draws different random numbers" in line for line in judge.not_observable)


def test_a_call_that_is_expected_to_raise_must_raise_in_eager() -> None:
    with pytest.raises(CompileUsageError, match="call 2 is expected to raise KeyError, but eager returns without an"):
        check_plan(torch.sin, calls=[call(torch.ones(3)), call(torch.ones(3)).raises(KeyError)], values=True)
