"""Two outputs share storage in eager only: a backend that copies every output."""

import torch

from pytest_torch_compile import check_compile

EXPECT = [("aliasing", "")]


def copying(gm, example_inputs):
    return lambda *args: tuple(value.clone() for value in gm(*args))


def target(x):
    y = x.sin()
    return y, y[1:].cos_()


def check(**options):
    return check_compile(target, torch.randn(4), backend=copying, **options)
