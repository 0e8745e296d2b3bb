"""The backward of a custom autograd function takes a shortcut when it is compiled."""

import torch

from pytest_torch_compile import check_compile

EXPECT = [("gradient", "")]


class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * x * (1.9 if torch.compiler.is_compiling() else 2.0)


def target(x):
    return Square.apply(x) + 1


def check(**options):
    return check_compile(target, torch.randn(8, requires_grad=True), backend="eager", train=True, **options)
