"""A list of losses that are not detached, so each entry holds its graph; backward runs through the last one."""

import torch
from torch import nn

from pytest_torch_compile import check_compile


class Trainer(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 1)
        self.losses = []

    def forward(self, x):
        self.losses.append(self.linear(x).square().mean())
        return self.losses[-1] * 1.0


def check(**options):
    model = Trainer()
    model(torch.randn(2, 4))
    report = check_compile(model, torch.randn(2, 4), backend="aot_eager", train=True, **options)
    assert len(model.losses) == 1
    return report
