"""A parameter is detached when compiled, so that its gradient is None."""

import torch
from torch import nn

from pytest_torch_compile import check_compile

EXPECT = [("gradient", "scale")]


class Scaled(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.scale = nn.Parameter(torch.ones(4))

    def forward(self, x):
        scale = self.scale.detach() if torch.compiler.is_compiling() else self.scale
        return self.linear(x) * scale


def check(**options):
    return check_compile(Scaled(), torch.randn(2, 4), backend="eager", train=True, **options)
