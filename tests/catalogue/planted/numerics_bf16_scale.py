"""A bf16 product that is one per cent too large throughout, which a bf16 tolerance table passes."""

import torch

from pytest_torch_compile import check_compile

EXPECT = [("numerics", "")]


def scaled(gm, example_inputs):
    return lambda *args: tuple(value * 1.01 for value in gm(*args))


def target(x, w):
    return x @ w


def check(**options):
    x = torch.randn(64, 64, dtype=torch.bfloat16)
    w = torch.randn(64, 64, dtype=torch.bfloat16)
    return check_compile(target, x, w, backend=scaled, **options)
