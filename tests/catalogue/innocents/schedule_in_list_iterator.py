"""Scales from a list iterator that a module holds, one for each call."""

import torch
from torch import nn

from pytest_torch_compile import check_compile


class Annealed(nn.Module):
    def __init__(self):
        super().__init__()
        self.scales = iter([1.0, 0.5, 0.25])

    def forward(self, x):
        y = x.sin()
        return y * next(self.scales)


def check(**options):
    model = Annealed()
    report = check_compile(
        model, calls=[torch.ones(4)] * 2, max_graph_breaks=9, max_recompiles=9, backend="eager", **options
    )
    assert next(model.scales) == 1.0
    return report
