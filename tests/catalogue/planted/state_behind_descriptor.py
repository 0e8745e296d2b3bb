"""A descriptor keeps its values in a weak table by instance, and compiled code does not write there."""

import weakref

import torch

from pytest_torch_compile import check_compile

EXPECT = [("state", "")]


class Tracked:
    def __init__(self):
        self.values = weakref.WeakKeyDictionary()

    def __get__(self, instance, owner=None):
        return self if instance is None else self.values[instance]

    def __set__(self, instance, value):
        self.values[instance] = value


class Config:
    level = Tracked()

    def __init__(self):
        self.level = 1


CONFIG = Config()


def target(x):
    if not torch.compiler.is_compiling():
        CONFIG.level = 2
    return x.sin() * 2


def check(**options):
    return check_compile(target, torch.randn(4), backend="eager", **options)
