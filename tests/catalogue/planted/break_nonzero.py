"""An operator whose output shape depends on the data, in the default mode."""

import torch

from pytest_torch_compile import check_compile

EXPECT = [("graph-break", "nonzero")]


def target(x):
    y = x.sin()
    where = y.nonzero()  # HERE
    return where * 2


def check(**options):
    return check_compile(target, torch.ones(4), backend="eager", fullgraph=False, **options)
