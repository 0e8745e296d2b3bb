"""The output is promoted to double when compiled."""

import torch

from pytest_torch_compile import check_compile

EXPECT = [("metadata", "dtype")]


def target(x):
    y = x.sin()
    return y.double() if torch.compiler.is_compiling() else y


def check(**options):
    return check_compile(target, torch.zeros(4), backend="eager", **options)
