"""A wrapper that was meant to compile returns the target as it is."""

import torch

from pytest_torch_compile import check_compile

EXPECT = [("nothing-compiled", "")]


def target(x):
    return x.sin() * 2


def wrapper(target):
    return target


def check(**options):
    return check_compile(target, torch.randn(4), compile=wrapper, **options)
