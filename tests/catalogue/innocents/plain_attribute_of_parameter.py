"""Parameters with attributes of their own, as sharded training marks them, which forward reads."""

import torch
from torch import nn

from pytest_torch_compile import check_compile


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(4))
        self.weight.rate = 2.0

    @torch.compiler.disable
    def rate(self):
        return self.weight.rate

    def forward(self, x):
        y = x * self.weight + 1
        return y * self.rate()


def check(**options):
    return check_compile(Model(), torch.randn(4), max_graph_breaks=9, max_recompiles=9, backend="eager", **options)
