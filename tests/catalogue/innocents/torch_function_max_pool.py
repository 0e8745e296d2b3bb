"""torch's own `max_pool2d` as the target: a function with a closure, made by torch's dispatch on a boolean."""

import torch
from torch.nn import functional

from pytest_torch_compile import check_compile


def target(x, size):
    return functional.max_pool2d(x, size)


# torch.compile(max_pool2d) itself fails on torch 2.6, and compiles nothing on 2.8: there only a call to it can be compiled.
if torch.__version__ >= (2, 11):
    target = functional.max_pool2d


def check(**options):
    return check_compile(target, torch.randn(1, 2, 6, 6), 2, backend="eager", **options)
