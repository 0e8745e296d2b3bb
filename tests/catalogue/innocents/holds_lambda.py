"""A module configured with lambdas and a local function that closes over one of its own submodules."""

import torch
from torch import nn

from pytest_torch_compile import check_compile


class Configured(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.linear = nn.Linear(width, width)
        self.activation = lambda x: x * torch.sigmoid(1.702 * x)
        norm = self.norm = nn.BatchNorm1d(width)
        self.finish = lambda x: norm(x) * width

    def forward(self, x):
        return self.finish(self.activation(self.linear(x)))


def check(**options):
    model = Configured(4)
    report = check_compile(model, torch.randn(3, 4), backend="eager", train=True, **options)
    assert model.norm.num_batches_tracked.item() == 0
    return report
