"""A frozen dataclass that holds a list and a tensor, both written in each call."""

from dataclasses import dataclass

import torch
from torch import nn

from pytest_torch_compile import check_compile


@dataclass(frozen=True)
class Trace:
    steps: list
    total: torch.Tensor


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.trace = Trace([], torch.zeros(4))

    def forward(self, x):
        self.trace.steps.append(1)
        self.trace.total.add_(x)
        return x.sin() * 2


def check(**options):
    return check_compile(
        Model(), calls=[torch.ones(4), torch.randn(4)], max_graph_breaks=9, max_recompiles=9, backend="eager", **options
    )
