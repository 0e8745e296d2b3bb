"""A wrapper that puts compiled blocks in the place of the blocks: the caller's model has its own afterwards."""

import torch
from torch import nn

from pytest_torch_compile import check_compile


class Mix(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x):
        return self.linear(x).tanh()


class Scale(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.full((4,), 2.0))

    def forward(self, x):
        return x * self.weight + 1


def regional(model):
    for index, block in enumerate(model):
        model[index] = torch.compile(block, backend="aot_eager")
    return model


def check(**options):
    model = nn.Sequential(Mix(), Scale())
    blocks = list(model)
    report = check_compile(model, torch.randn(2, 4), compile=regional, train=True, **options)
    assert list(model) == blocks
    return report
