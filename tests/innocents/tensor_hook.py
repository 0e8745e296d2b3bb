"""A hook that scales a gradient, in both modes."""

import torch

from pytest_torch_compile import check_compile


def halve(grad):
    return grad / 2


def target(x):
    y = x.sin()
    if y.requires_grad:
        y.register_hook(halve)
    return y * 3


def check(**options):
    return check_compile(target, torch.randn(8, requires_grad=True), backend="eager", train=True, **options)
