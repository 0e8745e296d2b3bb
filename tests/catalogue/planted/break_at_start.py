"""Graph break as the first statement of the function: one frame is compiled, so frame counters see nothing."""

import torch

from pytest_torch_compile import check_compile

EXPECT = [("graph-break", "graph_break")]


def target(x):
    torch._dynamo.graph_break()  # HERE
    return x.sin() * 2


def check(**options):
    return check_compile(target, torch.randn(4), backend="eager", **options)
