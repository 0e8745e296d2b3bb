"""Decoding state in a dataclass: the position moves by one token too many in compiled code."""

from dataclasses import dataclass

import torch
from torch import nn

from pytest_torch_compile import check_compile

EXPECT = [("state", "next_position")]


@dataclass
class Decoding:
    next_position: int = 0
    max_length: int = 16


class Embed(nn.Module):
    def __init__(self):
        super().__init__()
        self.positions = nn.Embedding(16, 4)
        self.decoding = Decoding()

    def forward(self, x):
        start = self.decoding.next_position
        y = x + self.positions.weight[start : start + x.shape[0]]
        self.decoding.next_position += x.shape[0] + int(torch.compiler.is_compiling())
        return y


def check(**options):
    return check_compile(Embed(), torch.randn(3, 4), backend="eager", **options)
