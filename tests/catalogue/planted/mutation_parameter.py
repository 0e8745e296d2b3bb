"""A weight is renormalised in place in the compiled leg only, and gives the same output."""

import torch
from torch import nn

from pytest_torch_compile import check_compile

EXPECT = [("mutation", "weight")]


class Normed(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.full((4,), 2.0))

    def forward(self, x):
        y = x * (self.weight / self.weight.norm())
        if torch.compiler.is_compiling():
            with torch.no_grad():
                self.weight.div_(self.weight.norm())
        return y


def check(**options):
    return check_compile(Normed(), torch.ones(4), backend="eager", **options)
