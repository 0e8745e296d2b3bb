"""A descriptor keeps its values in a weak table by instance, and raises for instances it does not know."""

import weakref

import torch
from torch import nn

from pytest_torch_compile import check_compile


class Tracked:
    def __init__(self):
        self.values = weakref.WeakKeyDictionary()

    def __get__(self, instance, owner=None):
        if instance not in self.values:
            raise RuntimeError("a stranger")
        return self.values[instance]

    def __set__(self, instance, value):
        self.values[instance] = value


class Model(nn.Module):
    level = Tracked()

    def __init__(self):
        super().__init__()
        self.level = 2

    @torch.compiler.disable
    def factor(self):
        return self.level

    def forward(self, x):
        y = x.sin() * 2
        return y * self.factor()


def check(**options):
    return check_compile(Model(), torch.randn(4), max_graph_breaks=9, max_recompiles=9, backend="eager", **options)
