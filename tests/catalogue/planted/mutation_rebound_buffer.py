"""A buffer that is replaced instead of updated, with a wrong value when compiled."""

import torch
from torch import nn

from pytest_torch_compile import check_compile

EXPECT = [("mutation", "seen")]


class Counter(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("seen", torch.zeros(()))

    def forward(self, x):
        self.seen = self.seen + (2 if torch.compiler.is_compiling() else 1)
        return x.sin() * 2


def check(**options):
    return check_compile(Counter(), torch.ones(4), backend="eager", **options)
