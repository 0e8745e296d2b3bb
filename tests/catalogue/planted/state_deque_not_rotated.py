"""A deque of experts that is rotated after each call, in eager only."""

import collections

import torch
from torch import nn

from pytest_torch_compile import check_compile

EXPECT = [("state", "turns")]


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.turns = collections.deque([1, 2, 3])

    def forward(self, x):
        if not torch.compiler.is_compiling():
            self.turns.rotate(1)
        return x.sin() * 2


def check(**options):
    return check_compile(Model(), torch.ones(4), backend="eager", **options)
