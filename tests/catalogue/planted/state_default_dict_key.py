"""Reading a `defaultdict` makes an entry, which compiled code does not make."""

import collections

import torch
from torch import nn

from pytest_torch_compile import check_compile

EXPECT = [("state", "buckets")]


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.buckets = collections.defaultdict(list)

    def forward(self, x):
        if not torch.compiler.is_compiling():
            self.buckets["small"]
        return x.sin() * 2


def check(**options):
    return check_compile(Model(), torch.randn(4), backend="eager", **options)
