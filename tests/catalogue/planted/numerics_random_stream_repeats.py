"""A `random.Random` of a module, which torch's compiled code does not advance as eager does: the second call shows it."""

import random

import torch
from torch import nn

from pytest_torch_compile import check_compile

EXPECT = [("numerics|state", "")]
ALSO = {"numerics", "state"}
BEFORE = (2, 15)


class Jitter(nn.Module):
    def __init__(self):
        super().__init__()
        self.stream = random.Random(3)

    def forward(self, x):
        return x * self.stream.random()


def check(**options):
    return check_compile(
        Jitter(), calls=[torch.ones(4)] * 2, max_graph_breaks=9, max_recompiles=9, backend="eager", **options
    )
