"""`.item()` in the default mode; fullgraph captures scalars on newer torch, so the budget is checked without it."""

import torch

from pytest_torch_compile import check_compile

EXPECT = [("graph-break", "item")]


def target(x):
    y = x.sin()
    return y / y.max().item()  # HERE


def check(**options):
    return check_compile(target, torch.ones(4), backend="eager", fullgraph=False, **options)
