"""A named tuple whose `==` and `repr` raise, as an argument: compiled code forgets the mask in it."""

import collections

import torch

from pytest_torch_compile import check_compile

EXPECT = [("numerics", "")]


class Batch(collections.namedtuple("Batch", "data mask")):
    def __eq__(self, other):
        raise RuntimeError("a batch is not compared")

    def __repr__(self):
        raise RuntimeError("a batch is not shown")


def target(batch):
    return batch.data + 1 if torch.compiler.is_compiling() else batch.data * batch.mask + 1


def check(**options):
    batch = Batch(torch.randn(4), torch.tensor([0.0, 1.0, 1.0, 0.0]))
    return check_compile(target, batch, backend="eager", **options)
