"""A Python float argument that changes between calls."""

import torch

from pytest_torch_compile import check_compile

EXPECT = [("recompile", "momentum")]


def target(x, momentum):  # HERE
    return x.sin() * momentum


def check(**options):
    x = torch.randn(4)
    return check_compile(target, calls=[(x, 0.5), (x, 0.25)], backend="eager", **options)
