"""The model seeds the global generator in its forward."""

import torch

from pytest_torch_compile import check_compile

EXPECT = [("graph-break", "manual_seed")]


def target(x):
    y = x.sin()
    torch.manual_seed(0)  # HERE
    return y + torch.rand(4)


def check(**options):
    return check_compile(target, torch.randn(4), backend="eager", **options)
