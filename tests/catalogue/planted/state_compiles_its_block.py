"""A model that has compiled one of its blocks itself, and whose steps are lost when all of it is compiled."""

import torch
from torch import nn

from pytest_torch_compile import check_compile

EXPECT = [("state", "steps")]


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.block = torch.compile(nn.Sequential(nn.Linear(4, 4), nn.Tanh()), backend="eager")
        self.steps = 0

    def forward(self, x):
        if not torch.compiler.is_compiling():
            self.steps += 1
        return self.block(x) * 2


def check(**options):
    return check_compile(Model(), torch.randn(2, 4), backend="eager", **options)
