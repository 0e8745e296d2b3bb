"""A layer that counts its batches in a Python attribute, alike in both legs, over two calls."""

import torch
from torch import nn

from pytest_torch_compile import check_compile


class Normalise(nn.Module):
    def __init__(self):
        super().__init__()
        self.batches_seen = 0
        self.last_shape = None

    def forward(self, x):
        self.batches_seen += 1
        self.last_shape = tuple(x.shape)
        return (x - x.mean()) / (x.std() + 1e-5)


def check(**options):
    model = Normalise()
    calls = [(torch.randn(3, 4),), (torch.randn(3, 4),)]
    report = check_compile(model, calls=calls, backend="eager", max_recompiles=2, **options)
    assert model.batches_seen == 0 and model.last_shape is None
    return report
