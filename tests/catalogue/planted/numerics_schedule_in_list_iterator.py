"""Scales from a list iterator that a module holds, and a factor of three in compiled code."""

import torch
from torch import nn

from pytest_torch_compile import check_compile

EXPECT = [("numerics", "")]


class Annealed(nn.Module):
    def __init__(self):
        super().__init__()
        self.scales = iter([1.0, 0.5, 0.25])

    def forward(self, x):
        y = x.sin() * (3 if torch.compiler.is_compiling() else 1)
        return y * next(self.scales)


def check(**options):
    return check_compile(Annealed(), torch.ones(4), max_graph_breaks=9, max_recompiles=9, backend="eager", **options)
