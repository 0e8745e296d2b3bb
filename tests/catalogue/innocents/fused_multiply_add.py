"""A multiply-add with one rounding instead of two, where the two terms nearly cancel."""

import torch

from pytest_torch_compile import check_compile


def fused(gm, example_inputs):
    return lambda x, y: ((x.double() * y.double() - x.double()).float(),)


def target(x, y):
    return x * y - x


def check(**options):
    return check_compile(target, torch.randn(32), 1 + torch.randn(32) * 1e-4, backend=fused, **options)
