"""A backend that gets one element of four thousand wrong."""

import torch

from pytest_torch_compile import check_compile

EXPECT = [("numerics", "[17, 33]")]


def one_off(gm, example_inputs):
    def run(*args):
        (output,) = gm(*args)
        output = output.clone()
        output[17, 33] += 0.01
        return (output,)

    return run


def target(x):
    return x.sin() * 2


def check(**options):
    return check_compile(target, torch.randn(64, 64), backend=one_off, **options)
