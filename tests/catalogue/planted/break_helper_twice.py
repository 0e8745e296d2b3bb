"""A helper with a break that is called from two lines: two breaks, and the graph is in three pieces."""

import torch

from pytest_torch_compile import check_compile

EXPECT = [("graph-break", "graph break 2 of 2, 1 allowed"), ("graph-break", "in target: return helper(y * 2).cos()")]


def helper(x):
    torch._dynamo.graph_break()  # HERE
    return x + 1


def target(x):
    y = helper(x.sin())
    return helper(y * 2).cos()


def check(**options):
    return check_compile(target, torch.randn(4), backend="eager", max_graph_breaks=1, **options)
