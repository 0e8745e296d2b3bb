"""The cold start times of batch size 16 and then 8, with automatic dynamic shapes on and off. They are recorded but not
asserted.

Covers practice 5 in docs/coverage.md. Published for a large model: 41.9 s and then 89.3 s with automatic dynamic
shapes, and 42.1 s and 47.8 s without. The dynamic compilation takes longer, but no further size needs a compilation.
"""

import pytest
import torch

pytest.importorskip("torchvision", reason="the cold start suite needs torchvision")

import torchvision

from pytest_torch_compile import compile_guard

from ..vision.models import images, make_resnet


@pytest.fixture(autouse=True)
def nothing_cached(monkeypatch, tmp_path):
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))


def cold_seconds(model, batches, side):
    """The seconds of compilation for each batch size."""
    spent = []
    compiled = torch.compile(model)
    device = next(model.parameters()).device
    for number, batch in enumerate(batches):
        with torch.no_grad(), compile_guard(max_recompiles=int(number > 0)) as seen:
            compiled(images(batch, side=side)["x"].to(device))
        spent.append(round(seen.compile_seconds.total, 1))
    return spent


def make_stem():
    """The first layers of the ResNet."""
    return torch.nn.Sequential(*list(make_resnet().children())[:4])


@pytest.mark.parametrize("automatic", [True, False], ids=["automatic", "static"])
@pytest.mark.torch_compile
@pytest.mark.slow
def test_second_batch_size(automatic, record_property):
    with torch._dynamo.config.patch(automatic_dynamic_shapes=automatic):
        first, second = cold_seconds(make_stem().eval(), (16, 8), side=32)
    record_property("cold_seconds", {"batch 16": first, "batch 8": second})
    assert first > 0 and second > 0


@pytest.mark.parametrize("automatic", [True, False], ids=["automatic", "static"])
@pytest.mark.torch_compile
@pytest.mark.gpu
def test_second_batch_size_of_a_whole_model(automatic, record_property):
    model = torchvision.models.inception_v3(weights=None, init_weights=False).eval().cuda()
    with torch._dynamo.config.patch(automatic_dynamic_shapes=automatic):
        first, second = cold_seconds(model, (16, 8), side=299)
    record_property("cold_seconds", {"batch 16": first, "batch 8": second})
    assert first > 0 and second > 0
