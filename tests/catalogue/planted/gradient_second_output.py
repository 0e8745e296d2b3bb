"""Only the gradient through the second output is wrong."""

import torch

from pytest_torch_compile import check_compile

EXPECT = [("gradient", "")]


def target(x):
    second = x.cos()
    if torch.compiler.is_compiling():
        second = second * 0.9 + (second * 0.1).detach()
    return x.sin(), second


def check(**options):
    return check_compile(target, torch.randn(8, requires_grad=True), backend="eager", train=True, **options)
