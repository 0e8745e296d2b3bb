"""The input starts to require a gradient."""

import torch

from pytest_torch_compile import check_compile

EXPECT = [("recompile", "requires_grad")]


def target(x):  # HERE
    return x.sin() * 2


def check(**options):
    calls = [(torch.randn(4),), (torch.randn(4, requires_grad=True),)]
    return check_compile(target, calls=calls, backend="eager", **options)
