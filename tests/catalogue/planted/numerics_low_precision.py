"""A matrix product that is taken in bf16 when it is compiled."""

import torch

from pytest_torch_compile import check_compile

EXPECT = [("numerics", "")]


def target(x, w):
    if torch.compiler.is_compiling():
        return (x.bfloat16() @ w.bfloat16()).float()
    return x @ w


def check(**options):
    return check_compile(target, torch.randn(8, 32), torch.randn(32, 8), backend="eager", **options)
