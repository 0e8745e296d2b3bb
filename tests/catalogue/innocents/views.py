"""Outputs that are views of the input and of each other."""

import torch

from pytest_torch_compile import check_compile


def target(x):
    y = x.sin()
    return x.t(), y, y[:1], y.view(-1), x[::2]


def check(**options):
    return check_compile(target, torch.randn(4, 4), backend="aot_eager", **options)
