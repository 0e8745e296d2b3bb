"""Rotary tables in a plain attribute, built by the first call and reused by the second."""

import torch
from torch import nn

from pytest_torch_compile import check_compile


class Rotary(nn.Module):
    def __init__(self):
        super().__init__()
        self.tables = {}

    def forward(self, x):
        length, width = x.shape
        if length not in self.tables:
            angles = torch.arange(length)[:, None] / 10000 ** (torch.arange(0, width, 2) / width)
            self.tables[length] = angles.cos(), angles.sin()
        cos, sin = self.tables[length]
        first, second = x.chunk(2, dim=-1)
        return torch.cat([first * cos - second * sin, first * sin + second * cos], dim=-1)


def check(**options):
    model = Rotary()
    calls = [(torch.randn(3, 4),), (torch.randn(3, 4),)]
    report = check_compile(model, calls=calls, backend="eager", max_recompiles=1, **options)
    assert not model.tables
    return report
