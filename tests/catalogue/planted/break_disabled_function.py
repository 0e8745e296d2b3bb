"""A call of a function that is disabled for compilation."""

import torch

from pytest_torch_compile import check_compile

EXPECT = [("graph-break", "disable")]


@torch.compiler.disable
def lookup(x):
    return x + 1


def target(x):
    y = x.sin()
    y = lookup(y)  # HERE
    return y * 2


def check(**options):
    return check_compile(target, torch.randn(4), backend="eager", **options)
