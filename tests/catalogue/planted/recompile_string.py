"""A string argument that changes."""

import torch

from pytest_torch_compile import check_compile

EXPECT = [("recompile", "pooling")]


def target(x, pooling):  # HERE
    return x.mean(0) if pooling == "mean" else x.sum(0)


def check(**options):
    x = torch.randn(4, 4)
    return check_compile(target, calls=[(x, "mean"), (x, "sum")], backend="eager", **options)
