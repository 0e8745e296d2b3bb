"""Flags in a `bytearray`, which compiled code does not set."""

import torch
from torch import nn

from pytest_torch_compile import check_compile

EXPECT = [("state", "flags")]


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.flags = bytearray(4)

    def forward(self, x):
        if not torch.compiler.is_compiling():
            self.flags[1] = 255
        return x.sin() * 2


def check(**options):
    return check_compile(Model(), torch.randn(4), backend="eager", **options)
