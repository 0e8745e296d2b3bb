"""A Python number in the output differs."""

import torch

from pytest_torch_compile import check_compile

EXPECT = [("numerics", "")]


def target(x):
    return x.sin(), 3 if torch.compiler.is_compiling() else 2


def check(**options):
    return check_compile(target, torch.randn(4), backend="eager", **options)
