"""Graph break two calls down: the place is the innermost line of the user's code."""

import torch

from pytest_torch_compile import check_compile

EXPECT = [("graph-break", "graph_break")]


def normalise(x):
    torch._dynamo.graph_break()  # HERE
    return x / x.norm()


def prepare(x):
    return normalise(x) + 1


def target(x):
    return prepare(x.sin()) * 2


def check(**options):
    return check_compile(target, torch.randn(4), backend="eager", **options)
