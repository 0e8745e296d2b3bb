"""A forward that keeps the time of its last call, with a budget for the break that the clock costs."""

import time

import torch
from torch import nn

from pytest_torch_compile import check_compile


class Stamped(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.last_call_at = None

    def forward(self, x):
        y = self.linear(x)
        self.last_call_at = time.time()
        return y.relu()


def check(**options):
    return check_compile(Stamped(), torch.randn(2, 4), backend="eager", max_graph_breaks=3, **options)
