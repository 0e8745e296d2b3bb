"""The output is transposed in memory when compiled."""

import torch

from pytest_torch_compile import check_compile

EXPECT = [("metadata", "stride")]


def target(x):
    y = x.sin()
    return y.t().contiguous().t() if torch.compiler.is_compiling() else y


def check(**options):
    return check_compile(target, torch.randn(3, 4), backend="eager", **options)
