"""Deterministic algorithms are on, and memory is filled with NaN: the model overwrites all that it allocates."""

import torch
from torch import nn

from pytest_torch_compile import check_compile


class Shift(nn.Module):
    def __init__(self):
        super().__init__()
        self.bias = nn.Parameter(torch.randn(4))

    def forward(self, x):
        shifted = torch.empty(x.shape)
        shifted[:, 0] = 0
        shifted[:, 1:] = x[:, :-1]
        return shifted + self.bias


def check(**options):
    torch.use_deterministic_algorithms(True)
    try:
        return check_compile(Shift(), torch.randn(2, 4), train=True, backend="aot_eager", **options)
    finally:
        torch.use_deterministic_algorithms(False)
