"""A kept dimension of size one, which broadcasting comparisons pass."""

import torch

from pytest_torch_compile import check_compile

EXPECT = [("metadata", "shape")]


def target(x):
    return x.sum(0, keepdim=torch.compiler.is_compiling())


def check(**options):
    return check_compile(target, torch.randn(3, 4), backend="eager", **options)
