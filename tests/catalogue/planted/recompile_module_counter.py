"""A module counts its calls in a Python attribute and computes with the count."""

import torch
from torch import nn

from pytest_torch_compile import check_compile

EXPECT = [("recompile", "steps")]


class Warmup(nn.Module):
    def __init__(self):
        super().__init__()
        self.steps = 2

    def forward(self, x):  # HERE
        self.steps += 1
        return x.sin() * self.steps


def check(**options):
    x = torch.randn(4)
    return check_compile(Warmup(), calls=[(x,), (x,)], backend="eager", **options)
