"""A `UserDict` of statistics, in which compiled code leaves the count as it was."""

import collections

import torch
from torch import nn

from pytest_torch_compile import check_compile

EXPECT = [("state", "count")]


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.statistics = collections.UserDict(count=0)

    def forward(self, x):
        if not torch.compiler.is_compiling():
            self.statistics["count"] = 1
        return x.sin() * 2


def check(**options):
    return check_compile(Model(), torch.randn(4), backend="eager", **options)
