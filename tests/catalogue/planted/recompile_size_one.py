"""Batch size one specialises, although the dimension is dynamic already."""

import torch

from pytest_torch_compile import check_compile

EXPECT = [("recompile", "1")]


def target(x):  # HERE
    return x.sin() * 2


def check(**options):
    calls = [(torch.randn(4, 3),), (torch.randn(1, 3),)]
    return check_compile(target, calls=calls, backend="eager", dynamic=True, **options)
