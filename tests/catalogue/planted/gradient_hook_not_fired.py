"""A hook that scales a gradient is registered in eager only."""

import torch

from pytest_torch_compile import check_compile

EXPECT = [("gradient", "argument x")]


def halve(grad):
    return grad / 2


def target(x):
    y = x.sin()
    if y.requires_grad and not torch.compiler.is_compiling():
        y.register_hook(halve)
    return y * 3


def check(**options):
    return check_compile(target, torch.randn(8, requires_grad=True), backend="eager", train=True, **options)
