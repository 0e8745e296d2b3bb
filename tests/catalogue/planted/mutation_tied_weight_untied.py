"""A tied weight is doubled in place through one of its names; compiled code puts a doubled copy there, and the tie is gone."""

import torch
from torch import nn

from pytest_torch_compile import check_compile

EXPECT = [("mutation|state|aliasing", "")]
ALSO = {"mutation", "state", "aliasing"}


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("first", torch.ones(4))
        self.second = nn.Module()
        self.second.register_buffer("weight", self.first)

    def forward(self, x):
        if torch.compiler.is_compiling():
            self.second.weight = self.second.weight * 2
        else:
            self.second.weight.mul_(2)
        return x.sin() * 2


def check(**options):
    return check_compile(Tied(), torch.randn(4), backend="eager", **options)
