"""If a function is called with more shapes than the recompile limit allows, the check reports the fallback to eager.

Covers practice 21 in docs/coverage.md. No figures were published. Measured on torch 2.11: 8 of 18 shapes are compiled
and 10 run in eager, without an error or warning that a test would notice. All torch versions since 2.6 behave in the
same way.
"""

import pytest
import torch
from torch import nn

pytest.importorskip("transformers", reason="the dynamic shapes suite needs transformers")

from pytest_torch_compile import CompileCheckFailed, check_compile, sizes

from ..transformers.inputs import tokens
from ..transformers.models import make_bert

LIMIT = 8
SHAPES = 18


def lengths(count):
    return [call.under(torch.no_grad) for call in sizes(tokens, batch=[2], length=range(4, 4 + count))]


def rows(count):
    return [(torch.randn(size, 4),) for size in range(5, 5 + count)]


def failure(target, calls, **options):
    with pytest.raises(CompileCheckFailed) as failed:
        check_compile(target, calls=calls, backend="eager", dynamic=False, diagnose="off", **options)
    return failed.value


@pytest.mark.torch_compile
@pytest.mark.quick
def test_default_mode_compiles_eight_shapes_and_says_that_the_rest_is_eager():
    failed = failure(make_bert().eval(), lengths(SHAPES), fullgraph=False, max_recompiles=SHAPES)
    assert {finding.kind for finding in failed.findings} == {"eager-fallback"}
    assert f"hit the recompile limit of {LIMIT}" in failed.findings[0].message
    assert failed.findings[0].calls == (LIMIT + 1,)
    assert len(failed.report.graphs) == LIMIT
    assert [row.outcome.startswith("eager") for row in failed.report.calls].index(True) == LIMIT


@pytest.mark.torch_compile
def test_fullgraph_mode_says_it_too():
    failed = failure(nn.Linear(4, 4), rows(SHAPES), max_recompiles=SHAPES)
    assert "eager-fallback" in {finding.kind for finding in failed.findings}


@pytest.mark.torch_compile
def test_limit_that_is_not_reached_is_no_finding(compile_check):
    options = {"dynamic": False, "fullgraph": False, "max_recompiles": LIMIT - 1}
    compile_check(nn.Linear(4, 4), calls=rows(LIMIT), backend="eager", **options)


@pytest.mark.parametrize("options", [{"max_recompiles": 1}, {"dynamic": True}], ids=["automatic", "dynamic=True"])
def test_dynamic_shapes_take_all_of_them_in_one_or_two_graphs(compile_check, options):
    compile_check(make_bert().eval(), calls=lengths(SHAPES), backend="eager", **options)
