"""An optional output is None in eager and a tensor when compiled."""

import torch

from pytest_torch_compile import check_compile

EXPECT = [("metadata", "None")]


def target(x):
    return x.sin(), x.cos() if torch.compiler.is_compiling() else None


def check(**options):
    return check_compile(target, torch.randn(4), backend="eager", **options)
