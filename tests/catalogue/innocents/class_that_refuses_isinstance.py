"""A class whose metaclass refuses `isinstance`, `==` and attributes that are missing, and an object that lies about its class."""

import torch
from torch import nn

from pytest_torch_compile import check_compile


class Strict(type):
    def __instancecheck__(cls, value):
        raise TypeError(f"{cls.__name__} does not answer")

    def __eq__(cls, other):
        raise TypeError("classes are not compared")

    def __hash__(cls):
        return 7

    def __getattr__(cls, name):
        raise RuntimeError(f"no {name} here")


class Options(metaclass=Strict):
    level = 3


class Proxy:
    @property
    def __class__(self):
        return dict


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.options, self.proxy = Options(), Proxy()
        self.linear = nn.Linear(4, 4)

    def forward(self, x):
        return self.linear(x)


def check(**options):
    return check_compile(Model(), torch.randn(2, 4), backend="eager", **options)
