"""One output less when compiled, which comparisons that stop at the shorter sequence pass."""

import torch

from pytest_torch_compile import check_compile

EXPECT = [("metadata", "")]


def target(x):
    outputs = (x.sin(), x.cos())
    return outputs[:1] if torch.compiler.is_compiling() else outputs


def check(**options):
    return check_compile(target, torch.randn(4), backend="eager", **options)
