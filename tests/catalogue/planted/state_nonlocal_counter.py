"""A step function that counts in an enclosing variable, by two when compiled."""

import torch

from pytest_torch_compile import check_compile

EXPECT = [("state", "micro_batches")]


def make_step(scale):
    micro_batches = 0

    def step(x):
        nonlocal micro_batches
        micro_batches += 2 if torch.compiler.is_compiling() else 1
        return x.tanh() * scale

    return step


def check(**options):
    return check_compile(make_step(0.5), torch.randn(4), backend="eager", **options)
