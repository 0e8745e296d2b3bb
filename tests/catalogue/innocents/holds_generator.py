"""A module that holds a `torch.Generator` for its initialisation, and keeps counting its calls."""

import torch
from torch import nn

from pytest_torch_compile import check_compile


class Initialised(nn.Module):
    def __init__(self):
        super().__init__()
        self.generator = torch.Generator().manual_seed(3)
        self.weight = nn.Parameter(torch.randn(4, 4, generator=self.generator))
        self.forward_passes = 0

    def forward(self, x):
        self.forward_passes += 1
        return x @ self.weight


def check(**options):
    model = Initialised()
    report = check_compile(model, torch.randn(2, 4), backend="eager", **options)
    assert model.forward_passes == 0
    return report
