"""A parameter and a buffer that are views with gaps between their elements, in training over two calls."""

import torch
from torch import nn

from pytest_torch_compile import call, check_compile


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(6, 6)[:, :4].T)
        self.register_buffer("seen", torch.zeros(6, 6)[:, ::2])

    def forward(self, x):
        self.seen.add_(1)
        return x @ self.weight.T, self.seen


def check(**options):
    calls = [call(torch.randn(3, 6)), call(torch.randn(5, 6))]
    return check_compile(Model(), calls=calls, train=True, max_recompiles=1, backend="eager", **options)
