"""A parameter that both replace by a new one: the caller has the one that the optimizer knows."""

import torch
from torch import nn

from pytest_torch_compile import check_compile


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(4))

    @torch.compiler.disable
    def renew(self):
        self.weight = nn.Parameter(torch.zeros(4))

    def forward(self, x):
        y = (x * self.weight).sin()
        self.renew()
        return y


def check(**options):
    model = Model()
    weight = model.weight
    report = check_compile(model, torch.randn(4), max_graph_breaks=9, max_recompiles=9, backend="eager", **options)
    assert model.weight is weight and torch.equal(weight, torch.ones(4))
    return report
