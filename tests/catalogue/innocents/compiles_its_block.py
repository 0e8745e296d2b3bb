"""A model that has compiled one of its blocks itself, and counts in the part that it has not."""

import torch
from torch import nn

from pytest_torch_compile import check_compile


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.block = torch.compile(nn.Sequential(nn.Linear(4, 4), nn.Tanh()), backend="eager")
        self.steps = 0

    def forward(self, x):
        self.steps += 1
        return self.block(x) * 2


def check(**options):
    model = Model()
    block = model.block
    report = check_compile(model, torch.randn(2, 4), train=True, backend="eager", **options)
    assert model.block is block and model.steps == 0
    return report
