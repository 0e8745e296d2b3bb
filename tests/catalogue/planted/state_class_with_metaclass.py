"""A class whose metaclass keeps a list of what was made: compiled code makes nothing."""

import torch

from pytest_torch_compile import check_compile

EXPECT = [("state", "made")]


class Counted(type):
    made = []


class Token(metaclass=Counted):
    def __init__(self, name):
        self.name = name


def target(x):
    if not torch.compiler.is_compiling():
        type(Token).made.append("token")
    return x.sin() * 2


def check(**options):
    return check_compile(target, torch.randn(4), backend="eager", **options)
