"""The second call runs under no_grad."""

import torch

from pytest_torch_compile import call, check_compile

EXPECT = [("recompile", "grad")]


def target(x):  # HERE
    return x.sin() * 2


def check(**options):
    x = torch.randn(4)
    calls = [call(x), call(x).under(torch.no_grad)]
    return check_compile(target, calls=calls, backend="eager", **options)
