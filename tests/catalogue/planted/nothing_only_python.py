"""The target runs Python arithmetic only, on the shape of its input."""

import torch

from pytest_torch_compile import check_compile

EXPECT = [("nothing-compiled", "")]


def target(x):
    return len(x.shape) * 2 + x.dim()


def check(**options):
    return check_compile(target, torch.randn(4, 4), backend="eager", **options)
