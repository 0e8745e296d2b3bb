"""The compiled leg scribbles over its input."""

import torch

from pytest_torch_compile import check_compile

EXPECT = [("mutation", "x")]


def target(x):
    y = x.sin() * 2
    if torch.compiler.is_compiling():
        x.mul_(0)
    return y


def check(**options):
    return check_compile(target, torch.ones(4), backend="eager", **options)
