"""A sum in random order, so two runs of eager differ by rounding, behind a counter: compiled code is off by one percent."""

import random

import torch
from torch import nn

from pytest_torch_compile import check_compile

EXPECT = [("numerics", "")]


@torch.library.custom_op("planted::counted_shuffled_sum", mutates_args=())
def shuffled_sum(x: torch.Tensor) -> torch.Tensor:
    order = torch.tensor(random.SystemRandom().sample(range(len(x)), len(x)))
    return x[order].sum(0)


@shuffled_sum.register_fake
def _(x):
    return x.new_empty(x.shape[1:])


class Histogram(nn.Module):
    def __init__(self):
        super().__init__()
        self.batches_seen = 0

    def forward(self, x):
        self.batches_seen += 1
        total = shuffled_sum(x.abs()) / self.batches_seen
        return total * 1.01 if torch.compiler.is_compiling() else total


def check(**options):
    return check_compile(Histogram(), torch.randn(5000, 8) * 100, backend="eager", **options)
