"""The compiled leg hands out its buffer itself, where eager hands out a copy."""

import torch
from torch import nn

from pytest_torch_compile import check_compile

EXPECT = [("aliasing", "state")]


class Memory(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("state", torch.zeros(4))

    def forward(self, x):
        self.state.add_(x)
        return self.state.view(2, 2) if torch.compiler.is_compiling() else self.state.view(2, 2).clone()


def check(**options):
    return check_compile(Memory(), torch.ones(4), backend="eager", **options)
