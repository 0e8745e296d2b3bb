"""Another dropout probability when compiled, under the same random stream."""

import torch
from torch.nn import functional

from pytest_torch_compile import check_compile

EXPECT = [("numerics", "")]


def target(x):
    rate = 0.1 if torch.compiler.is_compiling() else 0.5
    return functional.dropout(x, rate, training=True)


def check(**options):
    return check_compile(target, torch.ones(256), backend="eager", **options)
