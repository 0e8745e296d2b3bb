"""Two dimensions that had one size by accident were made one symbol."""

import torch

from pytest_torch_compile import check_compile

EXPECT = [("recompile", "")]


def target(x, y):  # HERE
    return x.sin().sum() + y.cos().sum()


def check(**options):
    calls = [(torch.randn(5), torch.randn(5)), (torch.randn(5), torch.randn(7))]
    return check_compile(target, calls=calls, backend="eager", dynamic=True, **options)
