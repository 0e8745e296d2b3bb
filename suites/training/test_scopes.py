"""Practice 10 in docs/coverage.md: four ways to compile a training step: the model; the model with its loss; the model
and, separately, the optimizer; or the whole step.

Measured (H200, torch 2.11, the captioner): 11.75 steps/s with the model compiled, and 12.05 with the optimizer compiled
as well.

The model with its loss and autocast is one graph, and the optimizer's step is another graph. Compiling the whole step
has no advantage over this, because `zero_grad()`, `backward()` and the optimizer each break the graph.
"""

from functools import partial

import pytest
import torch

from pytest_torch_compile import call

from ..captioning.models import tiny_decoder, words
from . import steps


@pytest.fixture
def step(compile_device):
    """The training step of a tiny GPT-2 with bf16 autocast and Adam."""
    model = tiny_decoder().to(compile_device)
    autocast = partial(torch.autocast, compile_device.type, torch.bfloat16)
    return steps.TrainStep(model, torch.optim.Adam(model.parameters(), lr=1e-3), autocast)


BATCHES = [call(**words([8, 6], seed=seed)) for seed in range(3)]


@pytest.mark.parametrize("scope", [steps.module, steps.module_and_loss], ids=["module", "module-and-loss"])
def test_model_is_one_graph(compile_check, backend, step, scope):
    compile = partial(torch.compile, backend=backend, fullgraph=True)

    report = compile_check(step, calls=BATCHES, compile=partial(scope, compile=compile))

    assert len(report.graphs) == 1


def test_optimizer_is_one_graph_more(compile_check, backend, step):
    compile = partial(steps.optimizer, compile=partial(torch.compile, backend=backend))

    report = compile_check(step, calls=BATCHES, compile=compile, max_graph_breaks=1)

    assert len(report.graphs) == 2
    assert [found.category for found in report.graph_breaks] == ["explicit graph break"]


def test_whole_step_breaks_at_backward(compile_check, backend, step):
    compile = partial(steps.whole_step, compile=partial(torch.compile, backend=backend))

    report = compile_check(step, calls=BATCHES, compile=compile, max_graph_breaks=3)

    assert "loss.backward()" in [found.location.source for found in report.graph_breaks]
