"""A sum in random order, as atomics on a GPU make it, kept in an attribute and added up in a global tensor."""

import random

import torch
from torch import nn

from pytest_torch_compile import check_compile

total_counts = torch.zeros(8)


@torch.library.custom_op("innocent::kept_shuffled_sum", mutates_args=())
def shuffled_sum(x: torch.Tensor) -> torch.Tensor:
    order = torch.tensor(random.SystemRandom().sample(range(len(x)), len(x)))
    return x[order].sum(0)


@shuffled_sum.register_fake
def _(x):
    return x.new_empty(x.shape[1:])


class Histogram(nn.Module):
    def __init__(self):
        super().__init__()
        self.last_counts = None

    def forward(self, x):
        self.last_counts = shuffled_sum(x)
        total_counts.add_(self.last_counts)
        return self.last_counts * 2


def check(**options):
    try:
        return check_compile(Histogram(), torch.randn(5000, 8) * 100, backend="eager", **options)
    finally:
        assert not total_counts.any()
