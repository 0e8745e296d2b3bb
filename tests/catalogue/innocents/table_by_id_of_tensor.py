"""Scales by `id` of the parameter, as optimizers of one's own keep them, read in each call."""

import torch
from torch import nn

from pytest_torch_compile import check_compile


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.ones(4)), nn.Parameter(torch.zeros(4))
        self.scales = {id(self.weight): 2.0, id(self.bias): 0.5}

    @torch.compiler.disable
    def scale(self, parameter):
        return self.scales[id(parameter)]

    def forward(self, x):
        y = x * self.weight + self.bias
        return y * self.scale(self.weight) + self.scale(self.bias)


def check(**options):
    return check_compile(Model(), torch.randn(4), max_graph_breaks=9, max_recompiles=9, backend="eager", **options)
