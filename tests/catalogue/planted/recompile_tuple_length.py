"""A tuple argument that grows by one hidden state."""

import torch

from pytest_torch_compile import check_compile

EXPECT = [("recompile", "past")]


def target(x, past):  # HERE
    for state in past:
        x = x + state
    return x


def check(**options):
    x = torch.randn(4)
    return check_compile(target, calls=[(x, (x,)), (x, (x, x))], backend="eager", **options)
