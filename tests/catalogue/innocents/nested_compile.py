"""A model with a submodule that is compiled already."""

import torch
from torch import nn

from pytest_torch_compile import check_compile


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.block = nn.Linear(4, 4)
        self.block.compile(backend="eager")

    def forward(self, x):
        return self.block(x).relu()


def check(**options):
    return check_compile(Model(), torch.randn(2, 4), backend="eager", **options)
