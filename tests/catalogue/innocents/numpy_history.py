"""A NumPy array and a view of it, written by both outside of what is compiled."""

import numpy
import torch
from torch import nn

from pytest_torch_compile import check_compile


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.history = numpy.zeros(3)
        self.tail = self.history[1:]

    @torch.compiler.disable
    def note(self):
        self.tail[0] += 1.0

    def forward(self, x):
        y = x.sin() * 2
        self.note()
        return y + 1


def check(**options):
    model = Model()
    report = check_compile(
        model, calls=[torch.randn(4)] * 2, max_graph_breaks=9, max_recompiles=9, backend="eager", **options
    )
    assert not model.history.any() and model.tail.base is model.history
    return report
