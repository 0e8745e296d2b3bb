"""An attribute of a parameter that eager sets and compiled code does not."""

import torch
from torch import nn

from pytest_torch_compile import check_compile

EXPECT = [("state|mutation", "")]


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(4))
        self.weight.uses = 0

    def forward(self, x):
        if not torch.compiler.is_compiling():
            self.weight.uses = 1
        return x * self.weight


def check(**options):
    return check_compile(Model(), torch.randn(4), backend="eager", **options)
