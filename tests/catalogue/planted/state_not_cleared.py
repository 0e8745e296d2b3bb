"""A scratch activation that eager lets go at the end of forward, and compiled code keeps alive."""

import torch
from torch import nn

from pytest_torch_compile import check_compile

EXPECT = [("state", "saved_residual")]


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.saved_residual = None

    def forward(self, x):
        self.saved_residual = x
        y = self.linear(x) + self.saved_residual
        if not torch.compiler.is_compiling():
            self.saved_residual = None
        return y


def check(**options):
    return check_compile(Block(), torch.randn(2, 4), backend="eager", **options)
