"""The second call runs under autocast."""

import torch
from torch import nn

from pytest_torch_compile import call, check_compile

EXPECT = [("recompile", "autocast")]


def autocast():
    return torch.autocast("cpu", dtype=torch.bfloat16)


def check(**options):
    x = torch.randn(2, 4)
    calls = [call(x), call(x).under(autocast)]
    return check_compile(nn.Linear(4, 4), calls=calls, backend="eager", **options)
