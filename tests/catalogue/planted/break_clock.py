"""The model reads the clock."""

import time

import torch

from pytest_torch_compile import check_compile

EXPECT = [("graph-break", "time")]


def target(x):
    started = time.time()  # HERE
    y = x.sin()
    return y * 2, started > 0


def check(**options):
    return check_compile(target, torch.randn(4), backend="eager", **options)
