"""A custom operator whose real implementation takes a wrong fast path in compiled code."""

import torch

from pytest_torch_compile import check_compile

EXPECT = [("numerics", "")]


@torch.library.custom_op("planted::scaled", mutates_args=())
def scaled(x: torch.Tensor, fast: bool) -> torch.Tensor:
    return x * (1.99 if fast else 2.0)


@scaled.register_fake
def _(x, fast):
    return torch.empty_like(x)


def target(x):
    return scaled(x.sin(), torch.compiler.is_compiling())


def check(**options):
    return check_compile(target, torch.ones(8), backend="eager", **options)
