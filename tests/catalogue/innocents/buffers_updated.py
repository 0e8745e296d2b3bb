"""An exponential moving average in a buffer, over two calls."""

import torch
from torch import nn

from pytest_torch_compile import check_compile


class Average(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("mean", torch.zeros(4))
        self.register_buffer("count", torch.zeros((), dtype=torch.int64))

    def forward(self, x):
        self.mean.lerp_(x.mean(0), 0.1)
        self.count += 1
        return x - self.mean


def check(**options):
    calls = [(torch.randn(3, 4),), (torch.randn(3, 4),)]
    return check_compile(Average(), calls=calls, backend="aot_eager", **options)
