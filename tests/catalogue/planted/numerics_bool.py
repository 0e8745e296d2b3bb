"""A mask that differs at its boundary: `<` became `<=`."""

import torch

from pytest_torch_compile import check_compile

EXPECT = [("numerics", "")]


def target(x):
    return x <= 2 if torch.compiler.is_compiling() else x < 2


def check(**options):
    return check_compile(target, torch.arange(4.0), backend="eager", **options)
