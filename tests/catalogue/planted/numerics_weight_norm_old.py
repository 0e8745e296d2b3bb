"""Old-style weight norm over a convolution, whose result is scaled once more in compiled code."""

import torch
from torch import nn

from pytest_torch_compile import check_compile

EXPECT = [("numerics", "")]


class Vocoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.utils.weight_norm(nn.Conv1d(2, 3, 3))

    def forward(self, x):
        y = self.conv(x)
        return y * self.conv.weight_g.mean() if torch.compiler.is_compiling() else y


def check(**options):
    return check_compile(Vocoder(), torch.randn(1, 2, 8), backend="eager", **options)
