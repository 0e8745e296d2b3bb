"""A list that may be iterated once, and was: whoever reads it again gets an error."""

import torch
from torch import nn

from pytest_torch_compile import check_compile


class Once(list):
    def __iter__(self):
        raise RuntimeError("these were read already")

    def __getitem__(self, index):
        raise RuntimeError("these were read already")

    def __contains__(self, item):
        raise RuntimeError("these were read already")


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.source = Once([torch.ones(4), torch.zeros(4)])
        self.linear = nn.Linear(4, 4)

    def forward(self, x):
        return self.linear(x)


def check(**options):
    return check_compile(Model(), torch.randn(2, 4), backend="eager", **options)
