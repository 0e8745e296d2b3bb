"""A helper that breaks is called from three lines, and the graph is in four pieces where the budget allows two."""

import torch

from pytest_torch_compile import check_compile

EXPECT = [("graph-break", "graph break 1 of 3, 1 allowed")]


def split():
    torch._dynamo.graph_break()  # HERE, met from three lines of target


def target(x):
    y = x.sin()
    split()
    y = y.cos()
    split()
    y = y.exp()
    split()
    return y * 2


def check(**options):
    return check_compile(target, torch.randn(4), backend="eager", max_graph_breaks=1, **options)
