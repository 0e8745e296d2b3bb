"""Two inputs that are views of one tensor: compiled code reads the second before it writes the first."""

import torch

from pytest_torch_compile import check_compile

EXPECT = [("numerics|aliasing", "")]


def target(first, second):
    if torch.compiler.is_compiling():
        second = second.clone()
    first.mul_(2)
    return second + 1


def check(**options):
    base = torch.arange(6.0)
    return check_compile(target, base[:4], base[2:], backend="eager", **options)
