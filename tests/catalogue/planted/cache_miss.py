"""A warm start is asked for, and the function is not the one that filled the cache."""

import random

import torch

from pytest_torch_compile import check_compile

EXPECT = [("cache-miss", "1 graph was not in the compile cache")]


def check(**options):
    x = torch.randn(8)
    factor = random.SystemRandom().random()  # a constant of the graph that no earlier run had

    def target(x):
        return x * factor

    return check_compile(target, x, warm=True, **options)
