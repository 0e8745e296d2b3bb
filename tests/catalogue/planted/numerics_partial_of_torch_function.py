"""A partial of torch's own max_pool2d behind a backend that perturbs: left uncopied, it is still compared."""

import functools

import torch
from torch.nn import functional

from pytest_torch_compile import check_compile

EXPECT = [("numerics", "")]


def perturb(gm, example_inputs):
    def run(*args):
        return tuple(value * 1.01 for value in gm(*args))

    return run


def check(**options):
    target = functools.partial(functional.max_pool2d, kernel_size=2)
    return check_compile(target, torch.randn(1, 1, 4, 4), backend=perturb, **options)
