"""A small tuple class that forbids `len()`, as libraries of group representations have, kept beside a linear layer."""

import torch
from torch import nn

from pytest_torch_compile import check_compile


class Terms(tuple):
    def __len__(self):
        raise NotImplementedError("a sum of terms has no length")

    @property
    def dim(self):
        return sum(count * (2 * degree + 1) for count, degree in self)


class Mixed(nn.Module):
    def __init__(self, terms):
        super().__init__()
        self.terms = terms
        self.linear = nn.Linear(terms.dim, 4)

    def forward(self, x):
        return self.linear(x).tanh()


def check(**options):
    return check_compile(Mixed(Terms([(1, 0), (1, 1)])), torch.randn(2, 4), train=True, backend="aot_eager", **options)
