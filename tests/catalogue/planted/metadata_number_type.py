"""A Python number in eager, a tensor of the same value when compiled."""

import torch

from pytest_torch_compile import check_compile

EXPECT = [("metadata", "")]


def target(x):
    count = x.shape[0]
    return x.sin(), torch.tensor(count) if torch.compiler.is_compiling() else count


def check(**options):
    return check_compile(target, torch.randn(4), backend="eager", **options)
