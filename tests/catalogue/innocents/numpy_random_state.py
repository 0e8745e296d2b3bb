"""A legacy `RandomState` held by a module, in two calls."""

import numpy
import torch
from torch import nn

from pytest_torch_compile import check_compile


class Noise(nn.Module):
    def __init__(self):
        super().__init__()
        self.state = numpy.random.RandomState(1)

    def forward(self, x):
        y = x.sin()
        return y + float(self.state.rand())


def check(**options):
    return check_compile(
        Noise(), calls=[torch.ones(4)] * 2, max_graph_breaks=9, max_recompiles=9, backend="eager", **options
    )
