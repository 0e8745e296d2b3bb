"""A meter whose `repr`, `str` and `format` raise, and which counts the calls."""

import torch
from torch import nn

from pytest_torch_compile import check_compile


class Meter:
    def __init__(self):
        self.total = 0

    def __repr__(self):
        raise RuntimeError("a meter is not shown")

    __str__ = __repr__

    def __format__(self, spec):
        raise RuntimeError("a meter is not shown")


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.meter = Meter()

    def forward(self, x):
        self.meter.total += 1
        return x.sin() * 2


def check(**options):
    return check_compile(Model(), torch.randn(4), backend="eager", **options)
