"""A partial of a torch function that has a closure."""

import functools

import torch
from torch.nn import functional

from pytest_torch_compile import check_compile


def check(**options):
    target = functools.partial(functional.max_pool2d, kernel_size=2)
    return check_compile(
        target, torch.randn(1, 2, 6, 6, requires_grad=True), backend="aot_eager", train=True, **options
    )
