"""Every call is given a freshly built module."""

import torch
from torch import nn

from pytest_torch_compile import check_compile

EXPECT = [("recompile", "layer")]


def target(x, layer):  # HERE
    return layer(x) * 2


def check(**options):
    x = torch.randn(2, 4)
    calls = [(x, nn.Linear(4, 4)), (x, nn.Sequential(nn.Linear(4, 4)))]
    return check_compile(target, calls=calls, backend="eager", **options)
