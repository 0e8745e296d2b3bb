"""A module with a `random.Random` of its own, and a factor of three in compiled code."""

import random

import torch
from torch import nn

from pytest_torch_compile import check_compile

EXPECT = [("numerics", "")]


class Jitter(nn.Module):
    def __init__(self):
        super().__init__()
        self.stream = random.Random(3)

    def forward(self, x):
        factor = 3 if torch.compiler.is_compiling() else 1
        return x * factor * self.stream.random()


def check(**options):
    return check_compile(Jitter(), torch.ones(4), max_graph_breaks=9, max_recompiles=9, backend="eager", **options)
