"""Practice 9 in docs/coverage.md, second half: switching between training, `no_grad` and `inference_mode`.

Each mode has its own graph: the first call in a mode causes a recompile, but returning to an earlier mode does not.
Results computed under `inference_mode` are inference tensors, and remain so.
"""

import pytest
import torch

from pytest_torch_compile import call

from ..captioning.models import tiny_decoder, words

BATCH = call(input_ids=words([8, 6])["input_ids"])


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_a_new_grad_mode_costs_one_recompile(compile_check, mode):
    calls = [BATCH, BATCH.under(mode), BATCH, BATCH.under(mode)]

    report = compile_check(tiny_decoder(), calls=calls, train=True, max_recompiles=1)

    assert [recompile.call for recompile in report.recompiles] == [2]


def test_no_grad_and_inference_mode_do_not_share_a_graph(compile_check):
    calls = [BATCH.under(torch.no_grad), BATCH.under(torch.inference_mode)] * 2

    report = compile_check(tiny_decoder().eval(), calls=calls, max_recompiles=1)

    assert [recompile.call for recompile in report.recompiles] == [2]


def test_train_and_eval_have_a_graph_each(compile_check):
    train, evaluate = (lambda model: model.train()), (lambda model: model.eval())
    calls = [BATCH.before(train), BATCH.before(evaluate), BATCH.before(train), BATCH.before(evaluate)]

    report = compile_check(tiny_decoder(dropout=0.1), calls=calls, train=True, max_recompiles=1)

    assert [recompile.call for recompile in report.recompiles] == [2]


@pytest.mark.torch_compile(backend="inductor")
def test_linear_in_inductor(compile_check):
    given = call(torch.randn(4, 8))

    compile_check(
        torch.nn.Linear(8, 8), calls=[given, given.under(torch.inference_mode), given], train=True, max_recompiles=1
    )
