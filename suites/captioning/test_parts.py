"""Practice 17 in docs/coverage.md: the encoder and the decoder are compiled separately, each with its own options.

Images have a fixed size, but captions do not. So the encoder is compiled with static shapes and the decoder with
dynamic shapes, and the code between them and the loss run in eager. Published (A100, torch 2.7): 7.93 steps/s, and 8.04
with max-autotune for the encoder.
"""

from functools import partial

import pytest
import torch

from pytest_torch_compile import call

from .apart import compile_parts, without_pooler
from .models import captions, loss_of, tiny


@pytest.fixture
def apart(backend):
    """A function that compiles the two parts of a captioner in place."""

    return partial(compile_parts, backend=backend, fullgraph=True)


def test_one_graph_each_for_all_lengths(compile_check, compile_device, apart):
    autocast = partial(torch.autocast, compile_device.type, torch.bfloat16)
    calls = [call(**captions([n - 2, n], seed=n)).under(autocast) for n in (16, 24, 40)]

    report = compile_check(without_pooler(tiny()), calls=calls, train=loss_of, compile=apart)

    assert [graph.call for graph in report.graphs] == [1, 1]


def test_parts_recompile_on_their_own(compile_check, apart):
    calls = [call(**captions(lengths)) for lengths in ([16, 14], [24, 20], [24, 20, 18], [16, 14, 12])]

    report = compile_check(without_pooler(tiny()), calls=calls, train=loss_of, compile=apart, max_recompiles=1)

    assert [recompile.call for recompile in report.recompiles] == [3]
    assert "pixel_values" in report.recompiles[0].guard


@pytest.mark.compile_known_failure(
    "the pooler is compiled with the encoder, but its output is not used: its gradients are zeros instead of None as "
    "in eager, so an optimizer with weight decay changes it",
    kind="gradient",
)
def test_unused_pooler_gets_no_gradient(compile_check, apart):
    compile_check(tiny(), calls=[call(**captions([16, 14]))], train=loss_of, compile=apart)
