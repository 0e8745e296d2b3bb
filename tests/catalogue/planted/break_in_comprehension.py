"""Graph break inside a list comprehension."""

import torch

from pytest_torch_compile import check_compile

EXPECT = [("graph-break", "graph_break")]
ALSO = {"nothing-compiled"}


def noisy(x):
    torch._dynamo.graph_break()  # HERE
    return x


def target(x):
    parts = [noisy(x * scale) for scale in range(2)]
    return sum(parts)


def check(**options):
    return check_compile(target, torch.randn(4), backend="eager", **options)
