"""Uninitialised memory that is overwritten before it is read."""

import torch

from pytest_torch_compile import check_compile


def target(x):
    scratch = torch.empty(2, 4)
    scratch[0] = x.sin()
    scratch[1] = x.cos()
    return scratch * 2


def check(**options):
    return check_compile(target, torch.randn(4), backend="eager", **options)
