"""An optional tensor argument that is there on the second call only."""

import torch

from pytest_torch_compile import check_compile

EXPECT = [("recompile", "mask")]


def target(x, mask=None):  # HERE
    y = x.sin()
    return y if mask is None else y * mask


def check(**options):
    x = torch.randn(4)
    return check_compile(target, calls=[(x,), (x, torch.ones(4))], backend="eager", **options)
