"""The compiled leg gives a NaN where eager gives a number, beside NaNs that both give."""

import torch

from pytest_torch_compile import check_compile

EXPECT = [("numerics", "nan")]


def target(x):
    limit = 0.1 if torch.compiler.is_compiling() else 0.0
    return torch.where(x > limit, x, float("nan"))


def check(**options):
    return check_compile(target, torch.tensor([-1.0, 0.05, 1.0]), backend="eager", **options)
