"""A wrong row of small values beside large ones, which a norm over the whole tensor hides."""

import torch

from pytest_torch_compile import check_compile

EXPECT = [("numerics", "[0,")]


def target(x):
    y = x * 2
    if torch.compiler.is_compiling():
        y = torch.cat([y[:1] * 1.5, y[1:]])
    return y


def check(**options):
    x = torch.randn(256, 64) * 1000
    x[0] *= 1e-4
    return check_compile(target, x, backend="eager", **options)
