"""A parameter that is replaced by a new one in eager only."""

import torch
from torch import nn

from pytest_torch_compile import check_compile

EXPECT = [("mutation|state|aliasing", "weight")]
ALSO = {"mutation", "state"}


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(4))

    def forward(self, x):
        y = x * self.weight
        if not torch.compiler.is_compiling():
            self.weight = nn.Parameter(torch.zeros(4))
        return y


def check(**options):
    return check_compile(Model(), torch.randn(4), backend="eager", **options)
