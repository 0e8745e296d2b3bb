"""The input changes its memory format."""

import torch
from torch import nn

from pytest_torch_compile import check_compile

EXPECT = [("recompile", "stride")]


def check(**options):
    x = torch.randn(2, 3, 8, 8)
    calls = [(x,), (x.contiguous(memory_format=torch.channels_last),)]
    return check_compile(nn.Conv2d(3, 4, 3), calls=calls, backend="eager", **options)
