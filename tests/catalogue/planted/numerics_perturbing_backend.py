"""A backend that adds a thousandth to every output."""

import torch

from pytest_torch_compile import check_compile

EXPECT = [("numerics", "")]


def perturb(gm, example_inputs):
    return lambda *args: tuple(value + 1e-3 for value in gm(*args))


def target(x):
    return x.sin() * 2


def check(**options):
    return check_compile(target, torch.randn(4), backend=perturb, **options)
