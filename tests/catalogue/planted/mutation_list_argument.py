"""An element of a list argument is not replaced when compiled."""

import torch

from pytest_torch_compile import check_compile

EXPECT = [("mutation", "cache")]


def target(x, cache):
    y = x.sin()
    if not torch.compiler.is_compiling():
        cache[0] = y
    return y * 2


def check(**options):
    return check_compile(target, torch.ones(4), [torch.zeros(4)], backend="eager", **options)
