"""Graph break inside a `try` block: the frame is skipped, and torch 2.6 says nothing about it in the default mode."""

import torch

from pytest_torch_compile import check_compile

EXPECT = [("graph-break", "graph_break")]
ALSO = {"nothing-compiled"}


def target(x):
    try:
        x = x.sin()
        torch._dynamo.graph_break()  # HERE
    except ValueError:
        x = x.cos()
    return x * 2


def check(**options):
    return check_compile(target, torch.randn(4), backend="eager", **options)
