"""check_artifact: the calls with which an artifact is built and run: seeds, exceptions, actions, sizes and writes."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch

from pytest_torch_compile import CompileCheckFailed, CompileUsageError, call, check_artifact, factory
from pytest_torch_compile._torch.deployment import unavailable

needs_precompile = pytest.mark.skipif(bool(unavailable("precompile")), reason=unavailable("precompile"))
X = torch.randn(6, 4)


class Dropout(torch.nn.Module):
    """In compiled code, ``share`` is the share of elements that become zero."""

    def __init__(self, share=0.5):
        super().__init__()
        self.share = share

    def forward(self, x):
        share = self.share if torch.compiler.is_compiling() else 0.5
        return torch.nn.functional.dropout(x * 2, share, self.training)


class Linear(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)

    def forward(self, x):
        return self.linear(x)


def findings(*args, **options):
    with pytest.raises(CompileCheckFailed) as failed:
        check_artifact(*args, via="export", **options)
    return failed.value.findings


@pytest.mark.parametrize("via", ["export", pytest.param("precompile", marks=needs_precompile)])
def test_every_call_of_a_random_model_starts_with_the_seed(via):
    check_artifact(Dropout(), calls=[X, X + 1, X], via=via, seed=3)


def test_random_numbers_that_the_artifact_uses_in_another_way_are_a_finding():
    assert {finding.kind for finding in findings(Dropout(0.3), calls=[X, X])} == {"numerics"}


def test_call_that_is_expected_to_raise_has_to_raise_in_eager():
    wide = torch.randn(6, 5)
    check_artifact(Linear(), calls=[X, call(wide).raises(RuntimeError)], via="export")
    with pytest.raises(
        CompileUsageError, match="call 2 is expected to raise KeyError, but eager returns without an exception"
    ):
        check_artifact(Linear(), calls=[X, call(X).raises(KeyError)], via="export")
    with pytest.raises(
        CompileUsageError, match="call 2 is expected to raise KeyError or IndexError, but eager raises RuntimeError"
    ):
        check_artifact(Linear(), calls=[X, call(wide).raises(KeyError, IndexError)], via="export")
    with pytest.raises(CompileUsageError, match="call 1 is expected to raise KeyError, but eager returns"):
        check_artifact(Linear(), calls=[call(X).raises(KeyError)], via="export")


def evaluate(model):
    model.eval()


def redraw(model):
    model.linear.reset_parameters()


@pytest.mark.parametrize("via", ["export", pytest.param("precompile", marks=needs_precompile)])
def test_artifact_is_built_after_the_actions_of_the_first_call(via):
    model = Dropout()
    check_artifact(model, calls=[call(X).before(evaluate), X], via=via)
    assert model.training
    model = Linear()
    before = model.linear.weight.clone()
    check_artifact(model, calls=[call(X).before(redraw), X], via=via)
    assert torch.equal(model.linear.weight, before)


def test_action_of_a_later_call_is_rejected_where_the_artifact_cannot_follow_it():
    with pytest.raises(CompileUsageError, match=r"call 2 has before\(...\), but the artifact is built from call 1"):
        check_artifact(Dropout(), calls=[X, call(X).before(evaluate)], via="export")


@needs_precompile
def test_precompiled_model_follows_the_actions_of_later_calls():
    check_artifact(
        Linear(), calls=[X, call(X).before(lambda model: model.linear.weight.data.zero_())], via="precompile"
    )


class Adds(torch.nn.Module):
    def forward(self, *tensors, last):
        return tensors[0] + tensors[1] + last * 2


class IsForSix(torch.nn.Module):
    def forward(self, x):
        return x.reshape(6, 4) + x


@pytest.mark.parametrize("name", ["batch", "the batch", None], ids=str)
def test_dimensions_may_have_names_and_belong_to_any_argument(name):
    calls = [call(rows, rows + 1, last=rows + 2) for rows in (X, X[:3])]
    dims = {0: {0: name}, 1: {-2: name}, "last": {0: name}}
    check_artifact(Adds(), calls=calls, via="export", dynamic_dims=dims)


def test_named_dimension_may_not_be_fixed_by_the_code():
    (finding,) = findings(IsForSix(), X, dynamic_dims={"x": {0: "batch"}})
    assert finding.kind == "compile-error" and "batch" in finding.evidence
    with pytest.raises(CompileUsageError, match="dynamic_dims is 3, but it must be a dict"):
        check_artifact(IsForSix(), X, dynamic_dims=3, via="export")


class AddsOne(torch.nn.Module):
    """Writes to its argument and to its buffer, and returns both."""

    def __init__(self, compiled=1):
        super().__init__()
        self.compiled = compiled
        self.register_buffer("calls", torch.zeros(2))

    def forward(self, x):
        self.calls.add_(self.compiled if torch.compiler.is_compiling() else 1)
        return x.add_(1), self.calls


def test_values_are_compared_as_they_were_after_each_call():
    x = X.clone()
    check_artifact(AddsOne(), calls=[x, x, x], via="export")
    found = findings(AddsOne(2), calls=[x, x])
    assert [(one.kind, one.subject, one.calls) for one in found] == [
        ("numerics", "output[1]", (1,)),
        ("numerics", "output[1]", (2,)),
    ]


def test_factory_is_no_module():
    with pytest.raises(CompileUsageError, match="can be built only from a module"):
        check_artifact(factory(Linear), X, via="export")


SCRIPT = """
import dataclasses, torch
from pytest_torch_compile import check_artifact

def doubled(x):
    return x * 2

@dataclasses.dataclass
class Result:
    y: torch.Tensor

class Linear(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)

    def forward(self, x):
        return Result(doubled(self.linear(x)))

torch.utils._pytree.register_dataclass(Result)
check_artifact(Linear(), torch.randn(3, 4), via="precompile")
print("passed")
"""


@needs_precompile
def test_model_of_a_script_can_be_precompiled(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT, encoding="utf-8")
    ran = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=False)
    assert ran.stdout.endswith("passed\n"), ran.stdout + ran.stderr
