"""Graph break in the backward of a custom autograd function."""

import torch

from pytest_torch_compile import check_compile

EXPECT = [("graph-break", "graph_break")]


class Double(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        torch._dynamo.graph_break()  # HERE
        return grad * 2


def target(x):
    return Double.apply(x.sin()) + 1


def check(**options):
    return check_compile(target, torch.randn(4, requires_grad=True), backend="eager", train=True, **options)
