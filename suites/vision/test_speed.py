"""Practice 1 in docs/coverage.md: torchvision's Inception v3, batch 16, 510 x 512, fp32: the speedup of a forward pass.

Published: 1.4x (A100, torch 2.2; median of device events, without the first call). Measured (H200, torch 2.11): 1.33x
for a forward pass in train mode, which keeps values for backward, and 1.73x in eval mode without gradients.
"""

import pytest
import torch

pytest.importorskip("torchvision", reason="the vision suite needs torchvision")
from torchvision.models import inception_v3

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="speed is gated on a CUDA device only"),
]


class WithGradients:
    """A forward pass as in a training loop."""

    def __init__(self, model):
        self.model = model

    def __call__(self, x):
        with torch.enable_grad():
            return self.model(x)

    def compiled(self):
        self.model = torch.compile(self.model)
        return self


@pytest.fixture
def model():
    return inception_v3(weights=None, init_weights=False).cuda()


@pytest.fixture
def images():
    return torch.randn(16, 3, 510, 512, device="cuda")


def test_inception_v3_in_train_mode(compile_benchmark, model, images):
    compile_benchmark(WithGradients(model.train()), images, compile=WithGradients.compiled)


def test_inception_v3_in_eval_mode(compile_benchmark, model, images):
    compile_benchmark(model.eval(), images)
