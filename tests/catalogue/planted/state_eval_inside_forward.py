"""A submodule frozen for one pass is put back into training mode in eager only."""

import torch
from torch import nn

from pytest_torch_compile import check_compile

EXPECT = [("state", "training")]


class Frozen(nn.Module):
    def __init__(self):
        super().__init__()
        self.drop = nn.Dropout(0.5)
        self.linear = nn.Linear(4, 4)

    def forward(self, x):
        self.drop.training = False
        y = self.drop(self.linear(x))
        if not torch.compiler.is_compiling():
            self.drop.training = True
        return y


def check(**options):
    return check_compile(Frozen(), torch.randn(2, 4), backend="eager", **options)
