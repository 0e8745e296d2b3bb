"""A module without parameters or buffers whose plain tensor is not advanced when compiled."""

import torch
from torch import nn

from pytest_torch_compile import check_compile

EXPECT = [("state", "level")]


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.level = torch.zeros(4)

    def forward(self, x):
        if not torch.compiler.is_compiling():
            self.level += x
        return x.sin() * 2


def check(**options):
    return check_compile(Model(), torch.ones(4), backend="eager", **options)
