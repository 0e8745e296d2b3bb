"""A lazy layer that has seen no input, and a factor of three in compiled code."""

import torch
from torch import nn

from pytest_torch_compile import check_compile

EXPECT = [("numerics", "")]


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.LazyLinear(4)

    def forward(self, x):
        y = self.linear(x)
        return y * 3 if torch.compiler.is_compiling() else y


def check(**options):
    return check_compile(Model(), torch.randn(2, 3), max_graph_breaks=9, max_recompiles=9, backend="eager", **options)
