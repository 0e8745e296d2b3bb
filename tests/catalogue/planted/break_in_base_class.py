"""Graph break in the forward of a base class, called through super()."""

import torch
from torch import nn

from pytest_torch_compile import check_compile

EXPECT = [("graph-break", "graph_break")]


class Base(nn.Module):
    def forward(self, x):
        torch._dynamo.graph_break()  # HERE
        return x * 2


class Derived(Base):
    def forward(self, x):
        return super().forward(x.sin())


def check(**options):
    return check_compile(Derived(), torch.randn(4), backend="eager", **options)
