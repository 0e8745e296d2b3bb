"""A property that counts its reads, which compiled code does not read."""

import torch
from torch import nn

from pytest_torch_compile import check_compile

EXPECT = [("state", "reads")]


class Config:
    def __init__(self):
        self.reads = 0

    @property
    def width(self):
        self.reads += 1
        return 4

    @property
    def device_name(self):
        raise RuntimeError("there is no device")


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.config = Config()

    def forward(self, x):
        return x * 4 if torch.compiler.is_compiling() else x * self.config.width


def check(**options):
    return check_compile(Model(), torch.randn(4), backend="eager", **options)
