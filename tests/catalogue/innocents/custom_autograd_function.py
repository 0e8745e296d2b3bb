"""A custom autograd function with a forward and a backward that dynamo can trace."""

import torch

from pytest_torch_compile import check_compile


class Clip(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.clamp(-1, 1)

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * (x.abs() <= 1)


def target(x):
    return Clip.apply(x * 2)


def check(**options):
    return check_compile(target, torch.randn(8, requires_grad=True), backend="aot_eager", train=True, **options)
