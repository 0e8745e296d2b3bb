"""A list whose `==` answers by element and whose truth is refused: what eager adds to it is lost when compiled."""

import torch
from torch import nn

from pytest_torch_compile import check_compile

EXPECT = [("state", "losses")]


class Column(list):
    def __eq__(self, other):
        return Column(one is two for one, two in zip(self, other, strict=False))

    def __bool__(self):
        raise ValueError("the truth of a column is ambiguous")

    __hash__ = None


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.losses = Column([0.5])

    def forward(self, x):
        if not torch.compiler.is_compiling():
            self.losses.append(1.5)
        return x.sin() * 2


def check(**options):
    return check_compile(Model(), torch.randn(4), backend="eager", **options)
