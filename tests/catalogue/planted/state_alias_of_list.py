"""Two names for one list: eager adds to it, compiled code puts a longer one in place of the first name."""

import torch
from torch import nn

from pytest_torch_compile import check_compile

EXPECT = [("state|aliasing", "")]


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.log = []
        self.view = self.log

    def forward(self, x):
        if torch.compiler.is_compiling():
            self.log = [*self.log, 1]
        else:
            self.log.append(1)
        return x.sin() * 2


def check(**options):
    return check_compile(Model(), torch.randn(4), backend="eager", **options)
