"""A small tuple class that forbids `len()`, held by a module whose compiled code is off by three."""

import torch
from torch import nn

from pytest_torch_compile import check_compile

EXPECT = [("numerics", "")]


class Terms(tuple):
    def __len__(self):
        raise NotImplementedError("a sum of terms has no length")


class Mixed(nn.Module):
    def __init__(self, terms):
        super().__init__()
        self.terms = terms
        self.linear = nn.Linear(4, 4)

    def forward(self, x):
        y = self.linear(x)
        return y * 3 if torch.compiler.is_compiling() else y


def check(**options):
    return check_compile(Mixed(Terms([(1, 0), (1, 1)])), torch.randn(2, 4), backend="eager", **options)
