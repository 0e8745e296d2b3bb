"""`.tolist()` in the default mode."""

import torch

from pytest_torch_compile import check_compile

EXPECT = [("graph-break", "")]


def target(x):
    y = x.sin()
    values = y.tolist()  # HERE
    return y * sum(values)


def check(**options):
    return check_compile(target, torch.ones(4), backend="eager", fullgraph=False, **options)
