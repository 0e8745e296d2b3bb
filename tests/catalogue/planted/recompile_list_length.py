"""A list argument that grows."""

import torch

from pytest_torch_compile import check_compile

EXPECT = [("recompile", "layers")]


def target(layers):  # HERE
    return sum(layer.sin() for layer in layers)


def check(**options):
    x = torch.randn(4)
    return check_compile(target, calls=[([x, x + 1],), ([x, x + 1, x + 2],)], backend="eager", **options)
