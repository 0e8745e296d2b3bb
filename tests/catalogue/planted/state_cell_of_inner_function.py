"""A counter two closures down, which compiled code does not raise."""

import torch

from pytest_torch_compile import check_compile

EXPECT = [("state", "count")]


def counting():
    count = 0

    def step(x):
        nonlocal count
        if not torch.compiler.is_compiling():
            count += 1
        return x.sin()

    return step


def check(**options):
    step = counting()

    def target(x):
        return step(x) * 2

    return check_compile(target, torch.randn(4), backend="eager", **options)
