"""A parametrization that counts how often its weight is asked for, in eager only."""

import torch
from torch import nn

from pytest_torch_compile import check_compile

EXPECT = [("mutation|state", "asked")]


class Counting(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("asked", torch.zeros(()))

    def forward(self, weight):
        if not torch.compiler.is_compiling():
            self.asked += 1
        return weight * 2


def check(**options):
    model = nn.Linear(4, 4)
    nn.utils.parametrize.register_parametrization(model, "weight", Counting())
    return check_compile(model, torch.randn(2, 4), max_graph_breaks=9, max_recompiles=9, backend="eager", **options)
