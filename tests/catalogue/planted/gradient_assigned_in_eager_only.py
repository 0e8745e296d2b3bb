"""A parameter is given a gradient by assignment, which compiled code does not do."""

import torch
from torch import nn

from pytest_torch_compile import check_compile

EXPECT = [("gradient|state|mutation", "weight")]


class Hebbian(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(4))

    def forward(self, x):
        if not torch.compiler.is_compiling():
            self.weight.grad = x.detach() * 2
        return x.sin()


def check(**options):
    return check_compile(Hebbian(), torch.randn(4), backend="eager", **options)
