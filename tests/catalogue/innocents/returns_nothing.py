"""A function that works in place and returns None."""

import torch

from pytest_torch_compile import check_compile


def target(x):
    x.mul_(2).add_(1)


def check(**options):
    return check_compile(target, torch.randn(4), backend="eager", **options)
