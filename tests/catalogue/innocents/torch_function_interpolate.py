"""A partial of `interpolate`, a long function of torch in plain Python."""

import functools

import torch
from torch.nn import functional

from pytest_torch_compile import check_compile


def check(**options):
    target = functools.partial(functional.interpolate, scale_factor=2, mode="nearest")
    return check_compile(target, torch.randn(1, 2, 4, 4), backend="eager", **options)
