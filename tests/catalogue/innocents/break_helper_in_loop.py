"""A helper that breaks is called in a loop, from one line: one place, however often it is met."""

import torch

from pytest_torch_compile import check_compile


def refine(x):
    y = x.sin()
    torch._dynamo.graph_break()
    return y.cos() * 2


def target(x):
    for _ in range(4):
        x = refine(x)
    return x


def check(**options):
    return check_compile(target, torch.randn(4), backend="eager", max_graph_breaks=1, **options)
