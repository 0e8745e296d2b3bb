"""A backend whose compiled code refuses its inputs when it runs."""

import torch

from pytest_torch_compile import check_compile

EXPECT = [("exception", "misaligned")]


def strict(gm, example_inputs):
    def run(*args):
        raise RuntimeError("misaligned address")

    return run


def target(x):
    return x.sin() * 2


def check(**options):
    return check_compile(target, torch.randn(4), backend=strict, **options)
