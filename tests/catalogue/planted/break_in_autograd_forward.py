"""A print in the forward of a custom autograd function."""

import torch

from pytest_torch_compile import check_compile

EXPECT = [("graph-break", "print")]


class Clip(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        print("clipping", end="")  # HERE
        return x.clamp(-1, 1)

    @staticmethod
    def backward(ctx, grad):
        return grad


def target(x):
    return Clip.apply(x.sin()) + 1


def check(**options):
    return check_compile(target, torch.randn(4, requires_grad=True), backend="eager", train=True, **options)
