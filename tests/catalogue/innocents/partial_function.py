"""A functools.partial as the target."""

import functools

import torch

from pytest_torch_compile import check_compile


def rotate(x, angle, scale):
    return x.sin() * angle + scale


def check(**options):
    return check_compile(functools.partial(rotate, angle=0.5, scale=2), torch.randn(4), backend="eager", **options)
