"""A helper with a break that is called from two lines: one cause, one finding."""

import torch

from pytest_torch_compile import check_compile

EXPECT = [("graph-break", "graph break 1 of 1")]


def helper(x):
    torch._dynamo.graph_break()  # HERE
    return x + 1


def target(x):
    y = helper(x.sin())
    return helper(y * 2).cos()


def check(**options):
    return check_compile(target, torch.randn(4), backend="eager", **options)
