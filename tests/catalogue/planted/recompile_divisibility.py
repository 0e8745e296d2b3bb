"""A branch on a size divides a dynamic dimension in two classes."""

import torch

from pytest_torch_compile import check_compile

EXPECT = [("recompile", "")]


def target(x):  # HERE
    return x.sin() if x.shape[0] % 8 == 0 else x.cos()


def check(**options):
    calls = [(torch.randn(16),), (torch.randn(17),)]
    return check_compile(target, calls=calls, backend="eager", dynamic=True, **options)
