"""The second call runs under inference mode."""

import torch

from pytest_torch_compile import call, check_compile

EXPECT = [("recompile", "")]


def target(x):  # HERE
    return x.sin() * 2


def check(**options):
    x = torch.randn(4)
    calls = [call(x), call(x).under(torch.inference_mode)]
    return check_compile(target, calls=calls, backend="eager", **options)
