"""A function whose only ops are assignments to elements of its argument."""

import torch

from pytest_torch_compile import check_compile


def clear(x, table):
    x[0] = 5
    table["a"] += 1
    return x


def check(**options):
    return check_compile(clear, torch.zeros(3), {"a": torch.ones(2)}, backend="eager", **options)
