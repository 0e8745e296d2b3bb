"""A method under a counting decorator, whose count in the decorator's closure is lost in compiled code."""

import functools

import torch
from torch import nn

from pytest_torch_compile import check_compile

EXPECT = [("state", "call_counts")]


def counted(method):
    call_counts = {method.__name__: 0}

    @functools.wraps(method)
    def wrapper(self, *args):
        if not torch.compiler.is_compiling():
            call_counts[method.__name__] += 1
        return method(self, *args)

    return wrapper


class Gate(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)

    @counted
    def forward(self, x):
        return x * self.linear(x).sigmoid()


def check(**options):
    return check_compile(Gate(), torch.randn(2, 4), backend="eager", **options)
