"""The second call runs under autocast."""

import torch
from torch.nn import functional

from pytest_torch_compile import call, check_compile

EXPECT = [("recompile", "autocast")]


def target(x, weight):  # HERE
    return functional.linear(x, weight)


def autocast():
    return torch.autocast("cpu", dtype=torch.bfloat16)


def check(**options):
    x, weight = torch.randn(2, 4), torch.randn(4, 4)
    calls = [call(x, weight), call(x, weight).under(autocast)]
    return check_compile(target, calls=calls, backend="eager", **options)
