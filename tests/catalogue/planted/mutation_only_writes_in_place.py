"""Compiled code assigns another value to an element of its argument."""

import torch

from pytest_torch_compile import check_compile

EXPECT = [("mutation", "x")]


def clear(x):
    x[0] = 6 if torch.compiler.is_compiling() else 5


def check(**options):
    return check_compile(clear, torch.zeros(3), backend="eager", **options)
