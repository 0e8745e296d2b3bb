"""Graph break in the forward of a nested module."""

import torch
from torch import nn

from pytest_torch_compile import check_compile

EXPECT = [("graph-break", "graph_break")]


class Gate(nn.Module):
    def forward(self, x):
        y = x.sigmoid()
        torch._dynamo.graph_break()  # HERE
        return x * y


def check(**options):
    model = nn.Sequential(nn.Linear(4, 4), Gate(), nn.Linear(4, 4))
    return check_compile(model, torch.randn(2, 4), backend="eager", **options)
