"""A logging helper is called from three lines of one forward: three breaks, and the budget allows one."""

import torch
from torch import nn

from pytest_torch_compile import check_compile

EXPECT = [("graph-break", "graph break 3 of 3, 1 allowed")]


def show(step, x):
    print(f"{step}: {tuple(x.shape)}", end="")  # HERE, met from three lines of forward


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(4, 8)
        self.outer = nn.Linear(8, 4)

    def forward(self, x):
        hidden = self.inner(x)
        show("inner", hidden)
        hidden = hidden.relu()
        show("relu", hidden)
        out = self.outer(hidden)
        show("outer", out)
        return out * 2


def check(**options):
    return check_compile(Encoder(), torch.randn(2, 4), backend="eager", max_graph_breaks=1, max_recompiles=8, **options)
