"""A warm start is asked for of a backend that has no cache."""

import torch

from pytest_torch_compile import check_compile

EXPECT = [("cache-miss", "the compile cache was not used")]


def target(x):
    return x.sin() + 1


def check(**options):
    return check_compile(target, torch.randn(8), backend="eager", warm=True, **options)
