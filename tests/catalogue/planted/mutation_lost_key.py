"""A dict argument receives a key in eager only."""

import torch

from pytest_torch_compile import check_compile

EXPECT = [("mutation", "cache")]


def target(x, cache):
    y = x.sin()
    if not torch.compiler.is_compiling():
        cache["last"] = y
    return y * 2


def check(**options):
    return check_compile(target, torch.ones(4), {"first": torch.zeros(4)}, backend="eager", **options)
