"""A gradient appears only in the compiled leg: eager detaches."""

import torch

from pytest_torch_compile import check_compile

EXPECT = [("gradient", "x")]


def target(x, weight):
    if not torch.compiler.is_compiling():
        x = x.detach()
    return x.sin() * weight


def check(**options):
    x = torch.randn(4, requires_grad=True)
    weight = torch.randn(4, requires_grad=True)
    return check_compile(target, x, weight, backend="eager", train=True, **options)
