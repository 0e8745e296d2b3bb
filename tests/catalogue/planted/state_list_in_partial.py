"""A list that a `partial` binds as its first argument, to which compiled code adds nothing."""

import functools

import torch

from pytest_torch_compile import check_compile

EXPECT = [("state", "")]


def step(seen, x):
    if not torch.compiler.is_compiling():
        seen.append(4)
    return x.sin() * 2


def check(**options):
    return check_compile(functools.partial(step, [1]), torch.randn(4), backend="eager", **options)
