"""A weak table of counts by module, in which compiled code leaves the count as it was."""

import weakref

import torch
from torch import nn

from pytest_torch_compile import check_compile

EXPECT = [("state", "")]

COUNTS = weakref.WeakKeyDictionary()


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        COUNTS[self] = 0

    def forward(self, x):
        if not torch.compiler.is_compiling():
            COUNTS[self] += 1
        return x.sin() * 2


def check(**options):
    model = Model()
    return check_compile(model, torch.randn(4), backend="eager", **options)
