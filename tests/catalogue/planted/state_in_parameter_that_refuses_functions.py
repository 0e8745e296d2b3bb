"""A write to a tensor in a parameter whose class refuses all functions of torch, which compiled code does not make."""

import torch
from torch import nn

from pytest_torch_compile import check_compile

EXPECT = [("state|mutation", "coordinates")]


class Point(nn.Parameter):
    def __init__(self, data):
        self.coordinates = nn.Parameter(data)

    def detach(self):
        return [self.coordinates.detach()]

    def numel(self):
        raise TypeError("a point has no number of elements")

    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        if type(function).__name__ == "method-wrapper":  # an attribute, which is read from the inner tensor
            return function(*(arg.coordinates if isinstance(arg, Point) else arg for arg in args))
        raise TypeError(f"{function} cannot be applied to a point")


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(3, 2)
        self.point = Point(torch.ones(2))

    def forward(self, x):
        if not torch.compiler.is_compiling():
            with torch.no_grad():
                self.point.coordinates += 1
        return self.linear(x).sin()


def check(**options):
    return check_compile(Model(), torch.ones(4, 3), train=True, backend="eager", **options)
