"""Graph break inside a loop: the frame is skipped, and nothing of it is compiled."""

import torch

from pytest_torch_compile import check_compile

EXPECT = [("graph-break", "graph_break")]
ALSO = {"nothing-compiled"}


def target(x):
    for _ in range(3):
        x = x.sin()
        torch._dynamo.graph_break()  # HERE
    return x


def check(**options):
    return check_compile(target, torch.randn(4), backend="eager", **options)
