"""A module with a `random.Random` of its own, which goes on with every call."""

import random

import torch
from torch import nn

from pytest_torch_compile import check_compile


class Jitter(nn.Module):
    def __init__(self):
        super().__init__()
        self.stream = random.Random(3)

    @torch.compiler.disable
    def draw(self):
        return self.stream.random()

    def forward(self, x):
        y = x.sin()
        return y * self.draw()


def check(**options):
    model = Jitter()
    report = check_compile(
        model, calls=[torch.ones(4)] * 3, max_graph_breaks=9, max_recompiles=9, backend="eager", **options
    )
    assert model.stream.random() == random.Random(3).random()
    return report
