"""A list of tuples that forbid `len()`, to which compiled code adds nothing."""

import torch
from torch import nn

from pytest_torch_compile import check_compile

EXPECT = [("state", "seen")]


class Terms(tuple):
    def __len__(self):
        raise NotImplementedError("a sum of terms has no length")


TERMS = Terms([(1, 0), (1, 1)])


class Mixed(nn.Module):
    def __init__(self):
        super().__init__()
        self.seen = [TERMS]

    def forward(self, x):
        if not torch.compiler.is_compiling():
            self.seen.append(TERMS)
        return x.sin() * 2


def check(**options):
    return check_compile(Mixed(), torch.randn(2, 4), backend="eager", **options)
