"""Graph break between two halves of a function."""

import torch

from pytest_torch_compile import check_compile

EXPECT = [("graph-break", "graph_break")]


def target(x):
    y = x.sin()
    torch._dynamo.graph_break()  # HERE
    return y * 2


def check(**options):
    return check_compile(target, torch.randn(4), backend="eager", **options)
