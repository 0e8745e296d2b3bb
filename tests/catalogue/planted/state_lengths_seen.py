"""A set of the sequence lengths seen so far, which only eager fills."""

import torch
from torch import nn

from pytest_torch_compile import check_compile

EXPECT = [("state", "lengths_seen")]


class Positions(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(16, 4)
        self.lengths_seen = {8}

    def forward(self, x):
        if not torch.compiler.is_compiling():
            self.lengths_seen.add(x.shape[0])
        return x + self.table(torch.arange(x.shape[0]))


def check(**options):
    return check_compile(Positions(), torch.randn(5, 4), backend="eager", **options)
