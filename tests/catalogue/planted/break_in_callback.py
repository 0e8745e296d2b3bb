"""Graph break in a lambda that a library function calls."""

import functools

import torch

from pytest_torch_compile import check_compile

EXPECT = [("graph-break", "graph_break")]
ALSO = {"nothing-compiled"}


def add(a, b):
    torch._dynamo.graph_break()  # HERE
    return a + b


def target(x):
    return functools.reduce(add, [x, x + 1, x + 2])


def check(**options):
    return check_compile(target, torch.randn(4), backend="eager", **options)
