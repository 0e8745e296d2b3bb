"""A failed check automatically reports what explain(), the logs, stances and backend tiers would show.

Covers practice 20 in docs/coverage.md: a bug is deliberately inserted deep in a real model, and the message of the
failed check must contain the line (explain, the graph_breaks log), the guard (the recompiles log), the stage (eager,
aot_eager, inductor), the smallest module (bottom-up), and the correct advice. No figures were published.
"""

import pytest
import torch
from torch import nn

pytest.importorskip("transformers", reason="the diagnosis suite needs transformers")

from pytest_torch_compile import CompileCheckFailed, check_compile

from ..transformers.inputs import tokens
from ..transformers.models import make_bert


class Breaking(nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, *args, **kwargs):
        torch._dynamo.graph_break()
        return self.inner(*args, **kwargs)


class Halved(nn.Module):
    """Has a graph break in its middle, because explain() does not count a break at the start or end of a function."""

    def forward(self, x):
        x = x.sin()
        torch._dynamo.graph_break()
        return x.cos()


class Scaled(nn.Module):
    """Returns twice its input in compiled code, like an untested branch for export, but its input in eager."""

    def forward(self, x):
        return x * 2 if torch.compiler.is_compiling() else x


def bert_with(part):
    model = make_bert().eval()
    layer = model.bert.encoder.layer[0]
    layer.intermediate.intermediate_act_fn = part
    return model


def failure(target, calls=None, **options):
    calls = calls or [tokens(batch=2, length=8)]
    with pytest.raises(CompileCheckFailed) as failed, torch.no_grad():
        check_compile(target, calls=calls, **options)
    return failed.value


@pytest.mark.torch_compile
@pytest.mark.quick
def test_break_is_placed_where_explain_places_it():
    target, x = nn.Sequential(nn.Linear(4, 4), Halved()), torch.randn(2, 4)
    explained = torch._dynamo.explain(target)(x)
    torch._dynamo.reset()
    finding = failure(target, [x], backend="eager", diagnose="off").findings[0]
    assert finding.kind == "graph-break"
    assert finding.location.line in {frame.lineno for reason in explained.break_reasons for frame in reason.user_stack}
    assert "graph_break()" in finding.location.source


@pytest.mark.torch_compile
def test_smallest_module_is_named():
    failed = failure(bert_with(Breaking(nn.GELU())), backend="eager", diagnose="full")
    assert any(
        line.endswith("intermediate_act_fn (Breaking) has the same finding when it is checked alone")
        for line in failed.report.diagnosis
    )


@pytest.mark.torch_compile
def test_stage_is_named_without_trying_the_tiers_by_hand():
    failed = failure(
        bert_with(Scaled()), backend="aot_eager", diagnose="full"
    )  # diagnose="auto" would try only as many fixes as time allows
    assert {finding.kind for finding in failed.findings} == {"numerics"}
    (stage,) = [line for line in failed.report.diagnosis if line.startswith("stage: ")]
    assert "not in torch" in stage and "test_diagnosis.py" in stage  # the branch for compiled code is in the model


@pytest.mark.torch_compile
def test_guard_of_a_recompile_and_the_advice_that_holds_are_named():
    calls = [tokens(batch=2, length=length) for length in (8, 12)]
    failed = failure(make_bert().eval(), calls, backend="eager", diagnose="full")
    assert "size" in failed.findings[0].evidence
    tried = [line for line in failed.report.diagnosis if line.startswith("tried: ")]
    assert any(
        "dynamic_dims={'input_ids': 1, 'attention_mask': 1}: 0 recompiles instead of 1" in line for line in tried
    )
    assert any("dynamic=True: 0 recompiles" in line for line in tried)


@pytest.mark.torch_compile
def test_stance_that_turns_compilation_off_is_a_finding():
    with torch.compiler.set_stance("force_eager"):
        failed = failure(make_bert().eval(), backend="eager", fullgraph=False, diagnose="off")
    assert "nothing-compiled" in {finding.kind for finding in failed.findings}


@pytest.mark.torch_compile
def test_healthy_model_has_nothing_to_diagnose(compile_check):
    with torch.no_grad():
        report = compile_check(make_bert().eval(), calls=[tokens(batch=2, length=8)], backend="eager", diagnose="full")
    assert report.diagnosis == []
