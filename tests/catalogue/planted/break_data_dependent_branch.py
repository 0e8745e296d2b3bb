"""A branch on the value of a tensor, which only splits the graph."""

import torch

from pytest_torch_compile import check_compile

EXPECT = [("graph-break", "branch")]


def target(x):
    y = x.sin()
    if y.sum() > 0:  # HERE
        return y * 2
    return y * 3


def check(**options):
    return check_compile(target, torch.ones(4), backend="eager", **options)
