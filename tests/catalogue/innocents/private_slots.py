"""Slots of a base class and private ones, one of them not set, written in each call."""

import torch
from torch import nn

from pytest_torch_compile import check_compile


class Base:
    __slots__ = ("__count", "unset")

    def __init__(self):
        self.__count = 0

    def step(self):
        self.__count += 1
        return self.__count


class Child(Base):
    __slots__ = ("name",)

    def __init__(self):
        super().__init__()
        self.name = "child"


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.counter = Child()

    def forward(self, x):
        y = x.sin() * 2
        self.counter.step()
        return y + 1


def check(**options):
    model = Model()
    report = check_compile(model, torch.randn(4), max_graph_breaks=9, max_recompiles=9, backend="eager", **options)
    assert model.counter.step() == 1
    return report
