"""Noise from the system's own source of randomness, which no seed repeats, in an output and in an attribute."""

import os

import torch
from torch import nn

from pytest_torch_compile import check_compile


@torch.library.custom_op("innocent::system_noise", mutates_args=())
def system_noise(x: torch.Tensor) -> torch.Tensor:
    raw = torch.frombuffer(bytearray(os.urandom(x.numel())), dtype=torch.uint8)
    return raw.to(x.dtype).view(x.shape)


@system_noise.register_fake
def _(x):
    return torch.empty_like(x, memory_format=torch.contiguous_format)


class Private(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.last_noise = None

    def forward(self, x):
        y = self.linear(x)
        self.last_noise = system_noise(x)
        return y, y + self.last_noise


def check(**options):
    return check_compile(Private(), torch.randn(3, 4), backend="eager", **options)
