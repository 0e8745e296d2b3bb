"""A weak set of the models that are alive: a check adds none to it that stays."""

import weakref

import torch
from torch import nn

from pytest_torch_compile import check_compile

ALIVE = weakref.WeakSet()


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)
        ALIVE.add(self)

    def __setstate__(self, state):
        super().__setstate__(state)
        ALIVE.add(self)

    def forward(self, x):
        return self.linear(x).tanh()


def check(**options):
    model = Model()
    report = check_compile(model, torch.randn(2, 4), train=True, backend="aot_eager", **options)
    assert list(ALIVE) == [model]
    return report
