"""A suite that computes in float64 by default: what the model makes is float64 in both legs."""

import torch
from torch import nn

from pytest_torch_compile import check_compile


class Fourier(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(4))

    def forward(self, x):
        grid = torch.linspace(0, 1, x.shape[-1])
        return (x * self.weight + grid) * torch.tensor(0.5)


def check(**options):
    torch.set_default_dtype(torch.float64)
    try:
        return check_compile(Fourier(), torch.randn(2, 4), train=True, backend="aot_eager", **options)
    finally:
        torch.set_default_dtype(torch.float32)
