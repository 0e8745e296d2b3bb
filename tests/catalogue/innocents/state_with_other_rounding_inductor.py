"""A running sum of activations in a plain attribute, which Inductor's fused code rounds otherwise than eager."""

import torch
from torch import nn

from pytest_torch_compile import check_compile


class Averaged(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(64, 64)
        self.energy = torch.zeros(64)

    def forward(self, x):
        y = torch.tanh(self.linear(x)) * x.exp()
        self.energy = self.energy * 0.99 + (y * y * 0.01).sum(0)
        return y / (self.energy.sqrt() + 1e-3)


@torch.no_grad()
def check(**options):
    return check_compile(Averaged(), torch.randn(128, 64), **options)
