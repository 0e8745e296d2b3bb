"""Outputs that are None, alone and inside containers."""

import torch

from pytest_torch_compile import check_compile


def target(x):
    x.add_(1)
    return None, [None, x.sin()], {"loss": None}


def check(**options):
    return check_compile(target, torch.randn(4), backend="eager", **options)
