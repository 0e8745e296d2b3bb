"""The oldest entry of a full deque, read after one was added: torch's compiled code does not forget the first."""

import collections

import torch
from torch import nn

from pytest_torch_compile import check_compile

EXPECT = [("numerics", "")]


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.window = collections.deque([1, 2, 3], maxlen=3)

    def forward(self, x):
        self.window.append(4)
        return x.sin() * self.window[0]


def check(**options):
    return check_compile(Model(), torch.ones(4), max_graph_breaks=9, max_recompiles=9, backend="eager", **options)
