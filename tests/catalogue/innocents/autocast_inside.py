"""Autocast inside the compiled region."""

import torch
from torch import nn

from pytest_torch_compile import check_compile


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(16, 16)

    def forward(self, x):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            y = self.linear(x)
        return y.float().softmax(-1)


def check(**options):
    return check_compile(Model(), torch.randn(4, 16), backend="aot_eager", train=True, **options)
