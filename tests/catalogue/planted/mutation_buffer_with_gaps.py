"""Compiled code writes another value to a buffer that is a view with gaps between its elements."""

import torch
from torch import nn

from pytest_torch_compile import call, check_compile

EXPECT = [("mutation", "seen"), ("mutation", "seen")]


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(6, 6)[:, :4].T)
        self.register_buffer("seen", torch.zeros(6, 6)[:, ::2].T)

    def forward(self, x):
        self.seen.add_(1.01 if torch.compiler.is_compiling() else 1)
        return x @ self.weight.T


def check(**options):
    calls = [call(torch.randn(3, 6)), call(torch.randn(3, 6))]
    return check_compile(Model(), calls=calls, train=True, backend="eager", **options)
