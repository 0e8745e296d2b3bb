"""The model takes a cheaper approximation when it is compiled."""

import torch
from torch.nn import functional

from pytest_torch_compile import check_compile

EXPECT = [("numerics", "")]


def target(x):
    approximate = "tanh" if torch.compiler.is_compiling() else "none"
    return functional.gelu(x, approximate=approximate)


def check(**options):
    return check_compile(target, torch.randn(64), backend="eager", **options)
