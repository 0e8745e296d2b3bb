"""An integer output that is off by one in one place."""

import torch

from pytest_torch_compile import check_compile

EXPECT = [("numerics", "")]


def target(x):
    index = torch.arange(1000)
    if torch.compiler.is_compiling():
        index = index + (index == 999)
    return index * x


def check(**options):
    return check_compile(target, torch.tensor(1), backend="eager", **options)
