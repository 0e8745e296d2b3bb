"""A weak table of scales by module, a weak reference to the target, and a table by `id`: each knows the target itself."""

import weakref

import torch
from torch import nn

from pytest_torch_compile import check_compile

SCALES = weakref.WeakKeyDictionary()
BY_ID = {}


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)
        SCALES[self] = 2.0
        BY_ID[id(self)] = 3.0
        self.linear.parent = weakref.ref(self)

    @torch.compiler.disable
    def scale(self):
        assert self.linear.parent() is self
        return SCALES[self] * BY_ID[id(self)]

    def forward(self, x):
        y = self.linear(x).tanh()
        return y * self.scale()


def check(**options):
    model = Model()
    return check_compile(model, torch.randn(2, 4), max_graph_breaks=9, max_recompiles=9, backend="eager", **options)
