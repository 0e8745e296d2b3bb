"""A text produces the same result in a batch and on its own, in every run and process.

A server that batches requests depends on this. On a CPU, the rounding of matrix products in a small Llama depends on
the batch size, so rows are compared within a tolerance; runs and processes are exactly equal.
"""

import pytest
import torch

pytest.importorskip("transformers", reason="this suite needs transformers")

from pytest_torch_compile import CompileCheckFailed, Tolerance, call, check_invariance

from ..transformers.inputs import VOCAB
from ..transformers.models import make_llama

ROUNDING = Tolerance(rtol=0.0, atol=2e-6)


def llama(device="cpu"):
    return make_llama().eval().to(device)


def texts(batch=6, length=16, device="cpu"):
    ids = torch.randint(3, VOCAB, (batch, length), device=device)
    return call(input_ids=ids, attention_mask=torch.ones_like(ids)).under(torch.no_grad)


@pytest.mark.torch_compile
def test_a_row_alone_is_the_row_in_the_batch_but_for_rounding(record_property):
    report = check_invariance(llama(), texts(), over="batch", tolerance=ROUNDING)
    record_property("invariance", [vars(result) for result in report.results])


@pytest.mark.torch_compile
def test_runs_and_processes_are_exactly_equal():
    report = check_invariance(llama(), texts(), over=("run", "process"))
    assert [result.equal for result in report.results] == [True, True]


@pytest.mark.gpu
@pytest.mark.torch_compile
def test_on_a_gpu(record_property):
    report = check_invariance(llama("cuda"), texts(device="cuda"), tolerance=Tolerance(rtol=0.0, atol=1e-5))
    record_property("invariance", [vars(result) for result in report.results])


class LooksAtOthers(torch.nn.Module):
    """A layer that mistakenly normalises over the batch."""

    def forward(self, hidden):
        return hidden - hidden.mean(0, keepdim=True)


def test_a_layer_that_looks_at_other_rows_is_named():
    model = llama()
    model.model.norm = LooksAtOthers()
    with pytest.raises(CompileCheckFailed) as failed:
        check_invariance(model, texts(), over="batch", tolerance=ROUNDING, backend="aot_eager")
    assert "first module that differs: model.norm (LooksAtOthers)" in failed.value.findings[0].evidence
