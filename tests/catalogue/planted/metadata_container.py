"""A list in eager, a tuple when compiled."""

import torch

from pytest_torch_compile import check_compile

EXPECT = [("metadata", "tuple")]


def target(x):
    outputs = [x.sin(), x.cos()]
    return tuple(outputs) if torch.compiler.is_compiling() else outputs


def check(**options):
    return check_compile(target, torch.randn(4), backend="eager", **options)
