"""The input changes its dtype."""

import torch

from pytest_torch_compile import check_compile

EXPECT = [("recompile", "dtype")]


def target(x):  # HERE
    return x.sin() * 2


def check(**options):
    x = torch.randn(4)
    return check_compile(target, calls=[(x,), (x.double(),)], backend="eager", **options)
