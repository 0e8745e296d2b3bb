"""The input arrives transposed on the second call."""

import torch

from pytest_torch_compile import check_compile

EXPECT = [("recompile", "stride")]


def target(x):  # HERE
    return x.sin() * 2


def check(**options):
    x = torch.randn(4, 4)
    return check_compile(target, calls=[(x,), (x.t(),)], backend="eager", **options)
