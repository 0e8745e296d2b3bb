"""Graph break after the last tensor operation, where no second graph follows."""

import torch

from pytest_torch_compile import check_compile

EXPECT = [("graph-break", "graph_break")]


def target(x):
    y = x.sin() * 2
    torch._dynamo.graph_break()  # HERE
    return y


def check(**options):
    return check_compile(target, torch.randn(4), backend="eager", **options)
