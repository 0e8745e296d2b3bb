"""A flag argument that flips."""

import torch

from pytest_torch_compile import check_compile

EXPECT = [("recompile", "causal")]


def target(x, causal):  # HERE
    return x.tril() if causal else x.sin()


def check(**options):
    x = torch.randn(4, 4)
    return check_compile(target, calls=[(x, True), (x, False)], backend="eager", **options)
