"""Every call is given a new lambda."""

import torch

from pytest_torch_compile import check_compile

EXPECT = [("recompile", "activation")]


def target(x, activation):  # HERE
    return activation(x) * 2


def check(**options):
    x = torch.randn(4)
    calls = [(x, lambda y: y.sin()), (x, lambda y: y.cos())]
    return check_compile(target, calls=calls, backend="eager", **options)
