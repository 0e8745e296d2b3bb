"""The compiled leg returns a view of its own parameter where eager returns a copy."""

import torch
from torch import nn

from pytest_torch_compile import check_compile

EXPECT = [("aliasing", "weight")]


class Table(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(4))

    def forward(self, x):
        rows = self.weight.view(2, 2) if torch.compiler.is_compiling() else self.weight.view(2, 2).clone()
        return rows, x * 2


def check(**options):
    return check_compile(Table(), torch.randn(4), backend="eager", **options)
