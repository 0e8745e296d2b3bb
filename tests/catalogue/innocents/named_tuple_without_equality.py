"""A named tuple whose `==`, `repr` and `hash` raise, as an argument and as an attribute."""

import collections

import torch
from torch import nn

from pytest_torch_compile import check_compile


class Batch(collections.namedtuple("Batch", "data mask")):
    def __eq__(self, other):
        raise RuntimeError("a batch is not compared")

    def __repr__(self):
        raise RuntimeError("a batch is not shown")

    def __hash__(self):
        raise RuntimeError("a batch is no key")


class Model(nn.Module):
    def __init__(self, first):
        super().__init__()
        self.first = first

    def forward(self, batch):
        return batch.data * batch.mask + 1


def check(**options):
    batch = Batch(torch.randn(4), torch.tensor([0.0, 1.0, 1.0, 0.0]))
    return check_compile(Model(batch), batch, backend="eager", **options)
