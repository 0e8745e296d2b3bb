"""Eager returns a view of its input, the compiled leg a copy."""

import torch

from pytest_torch_compile import check_compile

EXPECT = [("aliasing", "x")]


def target(x):
    flat = x.flatten().clone() if torch.compiler.is_compiling() else x.flatten()
    return flat, x.sin()


def check(**options):
    return check_compile(target, torch.randn(2, 2), backend="eager", **options)
