"""A parameter is given a gradient by assignment, in eager and compiled."""

import torch
from torch import nn

from pytest_torch_compile import check_compile


class Hebbian(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(4))

    def forward(self, x):
        self.weight.grad = x.detach() * 2
        return x.sin()


def check(**options):
    model = Hebbian()
    report = check_compile(model, torch.randn(4), max_graph_breaks=9, max_recompiles=9, backend="eager", **options)
    assert model.weight.grad is None
    return report
