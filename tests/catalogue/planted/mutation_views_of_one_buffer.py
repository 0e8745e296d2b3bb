"""A write through a view of a flat buffer, which compiled code does to a copy."""

import torch
from torch import nn

from pytest_torch_compile import check_compile

EXPECT = [("mutation|state", "")]


class Flat(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("flat", torch.arange(8.0))
        self.second = self.flat[4:]

    def forward(self, x):
        part = self.second.clone() if torch.compiler.is_compiling() else self.second
        part.mul_(2)
        return x + part


def check(**options):
    return check_compile(Flat(), torch.randn(4), backend="eager", **options)
