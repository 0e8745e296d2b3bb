"""A private slot of a base class that counts in eager only."""

import torch
from torch import nn

from pytest_torch_compile import check_compile

EXPECT = [("state", "count")]


class Base:
    __slots__ = ("__count",)

    def __init__(self):
        self.__count = 0

    def step(self):
        self.__count += 1


class Child(Base):
    __slots__ = ("name",)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.counter = Child()

    def forward(self, x):
        if not torch.compiler.is_compiling():
            self.counter.step()
        return x.sin() * 2


def check(**options):
    return check_compile(Model(), torch.randn(4), backend="eager", **options)
