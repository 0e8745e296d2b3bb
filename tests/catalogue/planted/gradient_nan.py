"""A masked square root whose forward is right and whose compiled gradient is NaN."""

import torch

from pytest_torch_compile import check_compile

EXPECT = [("gradient", "nan")]


def target(x):
    y = x.sin()
    if torch.compiler.is_compiling():
        y = torch.where(x > -9, y, (x - x).sqrt())
    return y


def check(**options):
    return check_compile(target, torch.randn(4, requires_grad=True), backend="aot_eager", train=True, **options)
