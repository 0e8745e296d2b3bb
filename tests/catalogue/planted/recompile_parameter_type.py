"""A Parameter is passed where the first call had a plain tensor."""

import torch
from torch import nn

from pytest_torch_compile import check_compile

EXPECT = [("recompile", "weight")]


def target(x, weight):  # HERE
    return x * weight


def check(**options):
    x = torch.randn(4)
    calls = [(x, torch.ones(4)), (x, nn.Parameter(torch.ones(4), requires_grad=False))]
    return check_compile(target, calls=calls, backend="eager", **options)
