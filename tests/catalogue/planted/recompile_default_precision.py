"""The default dtype changes between two calls, as between tests that set it and forget it."""

import torch

from pytest_torch_compile import call, check_compile

EXPECT = [("recompile", "dtype")]


def target(x):  # HERE
    return x.sin() * 2


def use(dtype):
    return lambda target: torch.set_default_dtype(dtype)


def check(**options):
    x = torch.randn(4)
    calls = [call(x).before(use(torch.float32)), call(x).before(use(torch.float64))]
    try:
        return check_compile(target, calls=calls, backend="eager", **options)
    finally:
        torch.set_default_dtype(torch.float32)
