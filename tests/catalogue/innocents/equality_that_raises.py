"""A configuration object whose `__eq__` and `__bool__` raise, and a NumPy array beside it, held by a model that counts."""

import numpy
import torch
from torch import nn

from pytest_torch_compile import check_compile


class Lazy:
    def __eq__(self, other):
        raise RuntimeError("a lazy value has no equality")

    def __bool__(self):
        raise RuntimeError("a lazy value has no truth")

    __hash__ = object.__hash__


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.settings = Lazy()
        self.class_weights = numpy.array([1.0, float("nan")])
        self.forward_passes = 0

    def forward(self, x):
        self.forward_passes += 1
        return self.linear(x)


def check(**options):
    return check_compile(Model(), torch.randn(2, 4), backend="eager", **options)
