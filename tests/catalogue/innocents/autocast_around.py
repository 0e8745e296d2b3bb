"""Autocast around the compiled region."""

import torch
from torch import nn

from pytest_torch_compile import call, check_compile


def autocast():
    return torch.autocast("cpu", dtype=torch.bfloat16)


def check(**options):
    x = torch.randn(4, 16)
    calls = [call(x).under(autocast), call(x).under(autocast)]
    return check_compile(nn.Linear(16, 16), calls=calls, backend="aot_eager", **options)
