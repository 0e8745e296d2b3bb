"""A bound method as the target: a model's own `encode`."""

import torch
from torch import nn

from pytest_torch_compile import check_compile


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.register_buffer("seen", torch.zeros(()))

    def encode(self, x):
        self.seen.add_(1)
        return self.linear(x).tanh()


def check(**options):
    return check_compile(Model().encode, torch.randn(2, 4), backend="eager", train=True, **options)
