"""The compiled leg returns a view of its input where eager returns a copy."""

import torch

from pytest_torch_compile import check_compile

EXPECT = [("aliasing", "x")]


def target(x):
    first = x[:2] if torch.compiler.is_compiling() else x[:2].clone()
    return first, x.sin()


def check(**options):
    return check_compile(target, torch.randn(4), backend="eager", **options)
