"""A module holds a running generator that forward does not ask: nothing depends on it."""

import torch
from torch import nn

from pytest_torch_compile import check_compile


class Fed(nn.Module):
    def __init__(self, source):
        super().__init__()
        self.source = source
        self.linear = nn.Linear(4, 4)

    def forward(self, x):
        return self.linear(x).tanh()


def check(**options):
    source = (number for number in range(3))
    next(source)
    report = check_compile(Fed(source), torch.randn(2, 4), backend="eager", train=True, **options)
    assert next(source) == 1
    return report
