"""Two outputs share storage in the compiled leg only."""

import torch

from pytest_torch_compile import check_compile

EXPECT = [("aliasing", "")]


def target(x):
    y = x.sin()
    return y, y[:2] if torch.compiler.is_compiling() else y[:2].clone()


def check(**options):
    return check_compile(target, torch.randn(4), backend="eager", **options)
