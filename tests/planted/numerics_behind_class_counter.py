"""A temperature on the class that every call cools: two runs of eager differ, and compiled code divides by its square."""

import torch
from torch import nn

from pytest_torch_compile import check_compile

EXPECT = [("numerics", "")]


class Schedule:
    values = [4.0, 2.0, 1.0]
    drawn = []


class Gumbel(nn.Module):
    def forward(self, logits):
        temperature = Schedule.values[len(Schedule.drawn)]
        Schedule.drawn.append(temperature)
        if torch.compiler.is_compiling():
            temperature = temperature**2
        return (logits / temperature).softmax(-1)


def check(**options):
    return check_compile(Gumbel(), torch.randn(3, 4), backend="eager", **options)
