"""Compiled code puts another meter in place, and no meter can be shown."""

import torch
from torch import nn

from pytest_torch_compile import check_compile

EXPECT = [("state", "total")]


class Meter:
    def __init__(self):
        self.total = 0

    def __repr__(self):
        raise RuntimeError("a meter is not shown")

    __str__ = __repr__


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.meter = Meter()

    def forward(self, x):
        self.meter.total += 2 if torch.compiler.is_compiling() else 1
        return x.sin() * 2


def check(**options):
    return check_compile(Model(), torch.randn(4), backend="eager", **options)
