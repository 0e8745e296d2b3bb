"""A zero with the other sign, which compares equal."""

import torch

from pytest_torch_compile import check_compile


def unsigned(gm, example_inputs):
    return lambda *args: tuple(value + 0.0 for value in gm(*args))


def target(x):
    return x * -1


def check(**options):
    return check_compile(target, torch.tensor([0.0, 1.0, -2.0]), backend=unsigned, **options)
