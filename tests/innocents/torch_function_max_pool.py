"""torch's own `max_pool2d` as the target: a function with a closure, made by torch's dispatch on a boolean."""

import torch
from torch.nn import functional

from pytest_torch_compile import check_compile


def target(x, size):
    return functional.max_pool2d(x, size)


# torch 2.6 itself fails on torch.compile(max_pool2d): only a call to it can be compiled there.
if torch.__version__ >= (2, 7):
    target = functional.max_pool2d


def check(**options):
    return check_compile(target, torch.randn(1, 2, 6, 6), 2, backend="eager", **options)
