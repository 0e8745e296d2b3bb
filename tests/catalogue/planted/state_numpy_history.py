"""A NumPy array of losses, in which compiled code writes nothing."""

import numpy
import torch
from torch import nn

from pytest_torch_compile import check_compile

EXPECT = [("state", "history")]


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.history = numpy.zeros(3)

    def forward(self, x):
        if not torch.compiler.is_compiling():
            self.history[0] = 1.0
        return x.sin() * 2


def check(**options):
    return check_compile(Model(), torch.randn(4), backend="eager", **options)
