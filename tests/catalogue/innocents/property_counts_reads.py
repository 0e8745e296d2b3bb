"""A configuration whose properties count how often they are read, or raise: forward reads none of them."""

import torch
from torch import nn

from pytest_torch_compile import check_compile


class Config:
    reads = 0

    def __init__(self):
        self.scale = 2.0

    @property
    def width(self):
        Config.reads += 1
        return 4

    @property
    def device_name(self):
        raise RuntimeError("there is no device")


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.config = Config()

    def forward(self, x):
        return x * self.config.scale


def check(**options):
    report = check_compile(Model(), torch.randn(4), backend="eager", **options)
    assert Config.reads == 0
    return report
