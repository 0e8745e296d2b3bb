"""An in-place method chain returns the input in eager, and a new tensor when compiled."""

import torch

from pytest_torch_compile import check_compile

EXPECT = [("aliasing", "x")]


def target(x):
    x.mul_(2)
    return x + 0 if torch.compiler.is_compiling() else x


def check(**options):
    return check_compile(target, torch.ones(4), backend="eager", **options)
