"""A table by `id` of the module, in which compiled code leaves the count as it was."""

import torch
from torch import nn

from pytest_torch_compile import check_compile

EXPECT = [("state", "COUNTS")]

COUNTS = {}


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        COUNTS[id(self)] = 0

    def forward(self, x):
        if not torch.compiler.is_compiling():
            COUNTS[id(self)] += 1
        return x.sin() * 2


def check(**options):
    COUNTS.clear()
    model = Model()
    return check_compile(model, torch.randn(4), backend="eager", **options)
