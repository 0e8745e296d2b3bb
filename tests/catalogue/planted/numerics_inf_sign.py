"""An infinity with the other sign."""

import torch

from pytest_torch_compile import check_compile

EXPECT = [("numerics", "inf")]


def target(x):
    zero = -0.0 if torch.compiler.is_compiling() else 0.0
    return 1 / (x * 0 + zero) if zero else x * 0 + 1 / torch.full_like(x, zero)


def check(**options):
    return check_compile(target, torch.ones(3), backend="eager", **options)
