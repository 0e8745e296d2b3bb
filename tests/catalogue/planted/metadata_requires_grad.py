"""The output is cut off from the graph when compiled."""

import torch

from pytest_torch_compile import check_compile

EXPECT = [("metadata", "requires_grad")]


def target(x):
    y = x.sin()
    return y.detach() if torch.compiler.is_compiling() else y


def check(**options):
    return check_compile(target, torch.randn(4, requires_grad=True), backend="eager", **options)
