"""What a plan contains, and that making it changes nothing here."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn.utils.parametrizations import weight_norm

from pytest_torch_compile import Budget, Card, CompileCheckFailed, CompileUsageError, Plan, advice, call, check_plan
from pytest_torch_compile.plan.cards import CARDS, as_card
from tests.once import once
from tests.plan import models
from tests.plan.together import Case, plans_of

X, LONG = torch.randn(32, 64), torch.randn(2048, 64)
GROUPED = torch.randn(2, 4, 32, 64, dtype=torch.bfloat16)
OWN_CARD = Card("My card", (8, 6), 10, 99 * 1024, 100 * 1024, 2**30, 2**20, 1e11)


@once
def plans() -> dict[str, Plan]:
    cases = {
        "inference": Case(models.Block(), (X,)),
        "training": Case(models.Block(), (LONG,), train=True),
        "with an optimizer": Case(models.Block(), (LONG,), train=True, optimizer=torch.optim.AdamW),
        "two shapes": Case(models.Block(), [call(X), call(torch.randn(16, 64))], Budget(max_recompiles=1)),
        "one shape twice": Case(models.Block(), [call(X), call(X)]),
        "attention": Case(models.with_attention, (torch.randn(2, 4, 32, 64, dtype=torch.bfloat16),)),
        "grouped attention": Case(models.with_grouped_attention, (GROUPED, GROUPED[:, :2])),
        "max-autotune": Case(models.Block(), (X,), mode="max-autotune"),
        "compiled module": Case(torch.compile(models.Block()), (X,)),
        "decorated method": Case(models.Block().step, (X,)),
        "constant": Case(models.with_a_constant, (X,)),
        "weight norm": Case(nn.Sequential(weight_norm(nn.Linear(64, 8)), nn.ReLU()), (X,), train=True),
        "exception": Case(models.raises, (X,)),
        "expected exception": Case(models.raises, [call(X).raises(KeyError)]),
    }
    return plans_of(cases, gpu="A100")


def test_each_kernel_has_its_ops_its_line_and_its_blocks(plans: dict[str, Plan]) -> None:
    (kernel,) = plans["inference"].kernels
    assert kernel.fuses == ("aten.sigmoid", "aten.mul")
    assert kernel.location is not None
    assert kernel.location.file.endswith("tests/plan/models.py") and "sigmoid" in kernel.location.source
    assert all(blocks["XBLOCK"] >= 1 and blocks["num_warps"] >= 1 for blocks in kernel.blocks) and kernel.blocks


@pytest.mark.parametrize("name", ["compiled module", "decorated method"])
def test_compiled_target_is_planned_as_its_original(plans: dict[str, Plan], name: str) -> None:
    assert not plans[name].findings
    assert [kernel.fuses for kernel in plans[name].kernels] == [("aten.sigmoid", "aten.mul")]


def test_library_calls_have_their_ops_and_line(plans: dict[str, Plan]) -> None:
    first, second = plans["inference"].library_calls
    assert first.name == second.name == "extern_kernels.mm"
    assert "aten.mm" in first.computes and first.location is not None and "self.first" in first.location.source


def test_arithmetic_of_products_and_attention_is_counted_by_dtype(plans: dict[str, Plan]) -> None:
    product = 2 * 32 * 64 * 64
    assert plans["inference"].flops == {"float32": 2 * product}
    assert plans["two shapes"].flops == {"float32": product}  # the second call has half the rows
    scores = 2 * 2 * 4 * 32 * 32 * 64
    assert plans["attention"].flops == {"bfloat16": 2 * scores}
    forward = 2 * 2 * 2048 * 64 * 64
    assert (plans["training"].flops or {})["float32"] > 2 * forward
    assert plans["grouped attention"].ok and plans["grouped attention"].flops != {}  # None if torch cannot count it


def test_the_code_is_written_for_the_card(plans: dict[str, Plan]) -> None:
    (code,) = plans["inference"].code
    assert "cc=80" in code and "multi_processor_count=108" in code and "async_compile.triton" in code


def test_tied_weights_are_one_tensor(plans: dict[str, Plan]) -> None:
    plan = plans["inference"]
    weights, activations = 64 * 64 + 64, 32 * 64
    assert plan.peak_memory == 4 * (weights + 3 * activations)


def test_training_plans_forward_before_backward(plans: dict[str, Plan]) -> None:
    assert [graph.backward for graph in plans["training"].planned] == [False, True]
    assert [graph.calls for graph in plans["training"].planned] == [(1,), (1,)]


def test_an_optimizer_needs_memory_for_its_state(plans: dict[str, Plan]) -> None:
    assert plans["with an optimizer"].peak_memory >= plans["training"].peak_memory + 4 * 2 * 64 * 64


def test_the_calls_that_add_the_state_to_the_peak_are_not_counted(plans: dict[str, Plan]) -> None:
    plan = plans["with an optimizer"]
    assert [graph.calls for graph in plan.planned] == [(1,), (1,)] and len(plan.launches) == 1 and not plan.recompiles


def test_a_second_shape_is_a_recompile_and_another_graph(plans: dict[str, Plan]) -> None:
    plan = plans["two shapes"]
    assert plan.ok and len(plan.recompiles) == 1 and [graph.calls for graph in plan.planned] == [(1,), (2,)]
    assert len(plan.launches) == 2


def test_the_same_shape_reuses_its_graph(plans: dict[str, Plan]) -> None:
    plan = plans["one shape twice"]
    assert [graph.calls for graph in plan.planned] == [(1, 2)] and plan.launches == (3, 3)


def test_a_rule_that_is_not_recorded_for_the_card_is_named(plans: dict[str, Plan]) -> None:
    plan = plans["attention"]
    assert [call.name for call in plan.library_calls] == ["torch.ops.aten._scaled_dot_product_flash_attention.default"]
    assert "flash kernel" in plan.assumed[0] and "capability 8.0" in plan.assumed[0]
    assert plan.assumed[0] in str(plan) and plan.not_observable and plan.ok


def test_a_constant_that_is_moved_to_the_card_is_planned(plans: dict[str, Plan]) -> None:
    assert plans["constant"].ok and plans["constant"].launches == (1,)


def test_a_parametrized_module_is_planned(plans: dict[str, Plan]) -> None:
    plan = plans["weight norm"]
    assert plan.ok and any("weight_norm" in op or "linalg" in op for kernel in plan.kernels for op in kernel.fuses)


def test_choices_by_timing_are_fixed_and_named(plans: dict[str, Plan]) -> None:
    plan = plans["max-autotune"]
    assert plan.ok and any("max_autotune" in choice for choice in plan.fixed)
    assert {call.name for call in plan.library_calls} == {"extern_kernels.mm"}
    assert "fixed in every plan: matrix products are not padded" in str(plan)


def test_an_exception_of_the_target_is_a_finding_unless_it_is_expected(plans: dict[str, Plan]) -> None:
    finding = plans["exception"].findings[0]
    assert finding.kind == "exception" and "no such key" in finding.evidence
    assert finding.location is not None and finding.location.file.endswith("tests/plan/models.py")
    assert plans["expected exception"].ok


def test_a_plan_never_claims_to_be_a_measurement(plans: dict[str, Plan]) -> None:
    assert "nothing was measured" in str(plans["inference"]) and plans["inference"].device.startswith("planned for")


def test_check_plan_leaves_model_and_process_alone() -> None:
    model = models.Block()
    before = {name: (id(tensor), tensor._version, tensor.clone()) for name, tensor in model.state_dict().items()}
    names = {name: vars(torch.cuda)[name] for name in ("device_count", "_initialized", "current_stream")}
    engine = torch.autograd.grad, torch.autograd.backward
    plan = check_plan(model, X, train=True, max_kernels=20, budget=Budget(max_kernels=1, max_memory=10**6))
    assert plan.ok and plan.gpu == CARDS["H100"] and plan.budget["max_kernels"] == 20
    after = model.state_dict()
    assert all(torch.equal(before[name][2], tensor) for name, tensor in after.items())
    assert names == {name: vars(torch.cuda)[name] for name in names}
    assert engine == (torch.autograd.grad, torch.autograd.backward)
    assert model.first.weight.grad is None


def test_a_tensor_that_stays_on_the_cpu_is_shown_with_its_line_and_its_fix() -> None:
    def positions(x: torch.Tensor) -> torch.Tensor:
        return x * torch.arange(x.shape[1])

    with pytest.raises(CompileCheckFailed) as failed:
        check_plan(positions, X)
    (finding,) = failed.value.findings
    assert finding.location is not None and finding.location.file.endswith("tests/plan/test_check_plan.py")
    assert "torch.arange(x.shape[1])" in finding.location.source and "device=x.device" in finding.hint


def test_advice_for_a_plan_names_no_option_that_check_plan_does_not_have() -> None:
    loosen, ignore = advice.loosen("output"), advice.keep_out_of_state("self.steps")
    assert advice.for_plan("", "") == ""
    assert advice.for_plan(loosen, "") == advice.for_plan(f"{advice.FIND_STAGE}; {loosen}", "") == advice.COMPARE_PLAN
    assert advice.for_plan(ignore, "") == ignore.partition("; if the difference")[0]
    on_2_11 = "Unhandled FakeTensor Device Propagation for aten.mul.Tensor, found two different devices cuda:0, cpu"
    assert "register it as a buffer" in advice.for_plan(advice.FIND_STAGE, on_2_11)


def test_a_card_of_the_callers_own_over_its_budget_fails() -> None:
    with pytest.raises(CompileCheckFailed, match=r"3 kernels, 2 allowed") as failed:
        check_plan(models.Block(), X, gpu=OWN_CARD, max_kernels=2)
    plan = failed.value.report
    assert isinstance(plan, Plan) and plan.gpu == OWN_CARD and "cc=86" in plan.code[0]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (dict(gpu="H1000"), "gpu='H1000' is unknown; choose one of: A100"),
        (dict(budget=Budget(max_syncs=1)), "a plan cannot check max_syncs"),
        (dict(budget=Budget(max_memory_ratio=1.5)), "a plan cannot check max_memory_ratio"),
        (dict(mode="fast"), "mode 'fast' is unknown"),
        (dict(calls=[call(X)]), "not both"),
        (dict(optimizer="SGD"), "optimizer is an instance of str; pass a function"),
        (dict(max_kernel=1), "max_kernel is not an option of check_plan; did you mean max_kernels"),
    ],
)
def test_a_wrong_call_says_what_to_write(arguments: dict[str, object], message: str) -> None:
    with pytest.raises(CompileUsageError, match=message):
        check_plan(models.Block(), X, **arguments)


def test_a_tensor_subclass_is_refused() -> None:
    class Own(torch.Tensor):
        pass

    with pytest.raises(CompileUsageError, match=r"a plan supports only plain tensors .* contain a tensor of type Own"):
        check_plan(models.Block(), X.as_subclass(Own))


def test_names_of_cards_may_be_written_in_any_case() -> None:
    assert as_card("rtx4090") == as_card("RTX 4090") == CARDS["RTX 4090"]


@pytest.mark.parametrize("card", CARDS.values(), ids=list(CARDS))
def test_a_card_has_plausible_figures(card: Card) -> None:
    assert card.shared_memory_per_block < card.shared_memory_per_processor
    assert 1e11 < card.bandwidth < 1e13 and dict(card.tflops)["bfloat16"] > dict(card.tflops)["float32"]
