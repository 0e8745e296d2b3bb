"""A function of the gradient that its input has from before, off by a half when compiled."""

import torch

from pytest_torch_compile import check_compile

EXPECT = [("numerics", "")]


def check(**options):
    x = torch.randn(4, requires_grad=True)
    x.square().sum().backward()
    return check_compile(lambda x: x.grad * (3 if torch.compiler.is_compiling() else 2), x, backend="eager", **options)
