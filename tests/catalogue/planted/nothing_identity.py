"""The target returns its input: there is nothing to compile."""

import torch

from pytest_torch_compile import check_compile

EXPECT = [("nothing-compiled", "")]


def target(x):
    return x


def check(**options):
    return check_compile(target, torch.randn(4), backend="eager", **options)
