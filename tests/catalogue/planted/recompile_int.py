"""A Python integer argument that changes on every call."""

import torch

from pytest_torch_compile import check_compile

EXPECT = [("recompile", "scale")]


def target(x, scale):  # HERE
    return x.sin() * scale


def check(**options):
    x = torch.randn(4)
    return check_compile(target, calls=[(x, 2), (x, 3)], backend="eager", **options)
