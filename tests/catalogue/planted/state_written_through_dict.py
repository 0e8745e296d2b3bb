"""An attribute that is written through `__dict__`, in eager only."""

import torch
from torch import nn

from pytest_torch_compile import check_compile

EXPECT = [("state", "seen")]


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.seen = 0

    def forward(self, x):
        if not torch.compiler.is_compiling():
            self.__dict__["seen"] = 1
        return x.sin() * 2


def check(**options):
    return check_compile(Model(), torch.randn(4), backend="eager", **options)
