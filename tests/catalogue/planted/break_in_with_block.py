"""Graph break inside a `with torch.no_grad()` block."""

import torch

from pytest_torch_compile import check_compile

EXPECT = [("graph-break", "graph_break")]


def target(x):
    with torch.no_grad():
        y = x.sin()
        torch._dynamo.graph_break()  # HERE
        y = y.cos()
    return y * 2


def check(**options):
    return check_compile(target, torch.randn(4), backend="eager", **options)
