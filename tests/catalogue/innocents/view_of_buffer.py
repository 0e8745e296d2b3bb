"""A view of a buffer as the output."""

import torch
from torch import nn

from pytest_torch_compile import check_compile


class Positions(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("table", torch.arange(16.0).view(4, 4))

    def forward(self, x):
        return self.table[: x.shape[0]], x + self.table[: x.shape[0]]


def check(**options):
    return check_compile(Positions(), torch.randn(2, 4), backend="aot_eager", **options)
