"""The second check of one function is warm: both its graphs come from the cache, the backward's too."""

import torch

from pytest_torch_compile import check_compile


def target(x):
    return x.sin() * 3


def check(**options):
    x = torch.randn(8, requires_grad=True)
    check_compile(target, x, train=True, **options)
    return check_compile(target, x, train=True, warm=True, **options)
