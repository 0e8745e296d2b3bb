"""Submodules with weak references to their parent, a plain cycle through a tuple, and a weak registry of instances."""

import weakref

import torch
from torch import nn

from pytest_torch_compile import check_compile


class Head(nn.Module):
    alive = weakref.WeakSet()

    def __init__(self, parent):
        super().__init__()
        self.linear = nn.Linear(4, 2)
        self.parent = weakref.ref(parent)
        self.owner = (parent,)
        self.alive.add(self)

    def forward(self, x):
        return self.linear(x)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.width = 4
        self.heads = nn.ModuleList(Head(self) for _ in range(2))

    def forward(self, x):
        self.width = x.shape[-1]
        return torch.cat([head(x) for head in self.heads], dim=-1)


def check(**options):
    return check_compile(Model(), torch.randn(2, 4), backend="eager", train=True, **options)
