"""An object that answers every attribute: the level that eager sets on it is lost when compiled."""

import torch
from torch import nn

from pytest_torch_compile import check_compile

EXPECT = [("state", "level")]


class Anything:
    def __getattr__(self, name):
        return Anything()


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.tracker = Anything()
        self.tracker.level = 1

    def forward(self, x):
        if not torch.compiler.is_compiling():
            self.tracker.level = 2
        return x.sin() * 2


def check(**options):
    return check_compile(Model(), torch.randn(4), backend="eager", **options)
