"""Half the gradient of a softmax, whose sum has a gradient of zero in any case."""

import torch

from pytest_torch_compile import check_compile

EXPECT = [("gradient", "")]


def target(x):
    y = x.softmax(-1)
    if torch.compiler.is_compiling():
        y = y * 0.5 + (y * 0.5).detach()
    return y


def check(**options):
    return check_compile(target, torch.randn(3, 4, requires_grad=True), backend="eager", train=True, **options)
