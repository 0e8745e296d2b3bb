"""A helper keeps the sizes it saw in the list of a default argument, in eager only."""

import torch

from pytest_torch_compile import check_compile

EXPECT = [("state", "")]


def helper(x, seen=[]):  # noqa: B006
    if not torch.compiler.is_compiling():
        seen.append(4)
    return x.sin()


def target(x):
    return helper(x) * 2


def check(**options):
    return check_compile(target, torch.randn(4), backend="eager", **options)
