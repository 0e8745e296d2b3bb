"""A print that was left in."""

import torch

from pytest_torch_compile import check_compile

EXPECT = [("graph-break", "print")]


def target(x):
    y = x.sin()
    print("shape", y.shape, end="")  # HERE
    return y * 2


def check(**options):
    return check_compile(target, torch.randn(4), backend="eager", **options)
