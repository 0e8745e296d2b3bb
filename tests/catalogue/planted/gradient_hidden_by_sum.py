"""The gradient reaches the wrong rows: a plain sum as the loss gives ones either way."""

import torch

from pytest_torch_compile import check_compile

EXPECT = [("gradient", "")]


def target(x):
    flipped = x.flip(0)
    if torch.compiler.is_compiling():
        return flipped.detach() + (x - x.detach())
    return flipped * 1


def check(**options):
    return check_compile(target, torch.randn(4, requires_grad=True), backend="eager", train=True, **options)
