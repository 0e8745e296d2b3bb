"""An empty batch specialises, although the dimension is dynamic already."""

import torch

from pytest_torch_compile import check_compile

EXPECT = [("recompile", "0")]


def target(x):  # HERE
    return x.sin() * 2


def check(**options):
    calls = [(torch.randn(4, 3),), (torch.randn(0, 3),)]
    return check_compile(target, calls=calls, backend="eager", dynamic=True, **options)
