"""Two modules share the helper that breaks: both are named, not the first only."""

import torch
from torch import nn

from pytest_torch_compile import check_compile

EXPECT = [("graph-break", "of 2, 1 allowed"), ("graph-break", "encode"), ("graph-break", "decode")]


def report(x):
    torch._dynamo.graph_break()  # HERE, met from two methods
    return x


class Coder(nn.Module):
    def __init__(self):
        super().__init__()
        self.down = nn.Linear(4, 2)
        self.up = nn.Linear(2, 4)

    def encode(self, x):
        return report(self.down(x)).relu()

    def decode(self, x):
        return report(self.up(x)).sigmoid()

    def forward(self, x):
        return self.decode(self.encode(x))


def check(**options):
    return check_compile(Coder(), torch.randn(2, 4), backend="eager", max_graph_breaks=1, **options)
