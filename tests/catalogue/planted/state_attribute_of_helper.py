"""A helper counts its calls in an attribute of its own, which compiled code does not raise."""

import torch

from pytest_torch_compile import check_compile

EXPECT = [("state", "calls")]


def helper(x):
    if not torch.compiler.is_compiling():
        helper.calls += 1
    return x.sin()


helper.calls = 0


def target(x):
    return helper(x) * 2


def check(**options):
    return check_compile(target, torch.randn(4), backend="eager", **options)
