"""The input gains a dimension."""

import torch

from pytest_torch_compile import check_compile

EXPECT = [("recompile", "rank")]


def target(x):  # HERE
    return x.sin() * 2


def check(**options):
    return check_compile(target, calls=[(torch.randn(4),), (torch.randn(4, 3),)], backend="eager", **options)
