"""A wrapper that compiles each block and puts the last one in the place of the first as well."""

import torch
from torch import nn

from pytest_torch_compile import check_compile

EXPECT = [("numerics", "")]
ALSO = {"state", "mutation"}


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
    model[1] = torch.compile(model[1], backend="eager")
    model[0] = model[1]
    return model


def check(**options):
    model = nn.Sequential(Mix(), Scale())
    blocks = list(model)
    try:
        return check_compile(model, torch.randn(2, 4), compile=regional, max_recompiles=2, **options)
    finally:
        assert list(model) == blocks
