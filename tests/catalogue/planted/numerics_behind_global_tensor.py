"""A module-level tensor that the target advances in place, and a backend whose results are off by ten."""

import torch

from pytest_torch_compile import check_compile

EXPECT = [("numerics", "")]

position = torch.ones(())


def off_by_ten(gm, example_inputs):
    def run(*args):
        first, *others = gm(*args)
        return (first * 10, *others)

    return run


def target(x):
    y = x.cos() * position
    position.add_(1)
    return y


def check(**options):
    try:
        return check_compile(target, torch.randn(4), backend=off_by_ten, **options)
    finally:
        assert position.item() == 1
