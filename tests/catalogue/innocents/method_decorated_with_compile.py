"""A method that its class decorates with torch.compile, checked as a bound method."""

import torch
from torch import nn

from pytest_torch_compile import check_compile


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)

    @torch.compile(backend="eager")
    def step(self, x):
        return self.linear(x).relu()


def check(**options):
    return check_compile(Model().step, torch.randn(2, 4), train=True, backend="eager", **options)
