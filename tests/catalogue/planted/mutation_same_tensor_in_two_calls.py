"""One tensor in two calls that each write it in place, which compiled code does not."""

import torch

from pytest_torch_compile import check_compile

EXPECT = [("mutation", "x")]
ALSO = {"numerics"}


def target(x):
    y = x * 2
    if not torch.compiler.is_compiling():
        x.add_(1)
    return y


def check(**options):
    x = torch.zeros(4)
    return check_compile(target, calls=[x, x], backend="eager", **options)
