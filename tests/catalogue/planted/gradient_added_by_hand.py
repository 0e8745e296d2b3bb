"""A gradient that the caller made is added to in place, in eager only."""

import torch
from torch import nn

from pytest_torch_compile import check_compile

EXPECT = [("gradient|state|mutation", "")]


class Accumulating(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(4))

    def forward(self, x):
        if not torch.compiler.is_compiling():
            self.weight.grad.add_(x)
        return x.sin()


def check(**options):
    model = Accumulating()
    model.weight.grad = torch.ones(4)
    return check_compile(model, torch.randn(4), backend="eager", **options)
