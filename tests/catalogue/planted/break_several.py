"""Three graph breaks of three causes in one function: one failure lists them all."""

import torch

from pytest_torch_compile import check_compile

EXPECT = [("graph-break", "graph_break"), ("graph-break", "print"), ("graph-break", "disable")]


@torch.compiler.disable
def shift(x):
    return x + 1


def target(x):
    x = x.sin()
    torch._dynamo.graph_break()  # HERE
    x = x.cos()
    print("half way", end="")  # HERE
    x = shift(x)  # HERE
    return x * 2


def check(**options):
    return check_compile(target, torch.randn(4), backend="eager", **options)
