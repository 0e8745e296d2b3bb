"""The input changes its memory format."""

import torch
from torch import nn

from pytest_torch_compile import check_compile

EXPECT = [("recompile", "stride")]


class Stem(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3)

    def forward(self, x):  # HERE
        return self.conv(x).relu()


def check(**options):
    x = torch.randn(2, 3, 8, 8)
    calls = [(x,), (x.contiguous(memory_format=torch.channels_last),)]
    return check_compile(Stem(), calls=calls, backend="eager", **options)
