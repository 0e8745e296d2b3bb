"""A configuration attribute of the module is changed between two calls."""

import torch
from torch import nn

from pytest_torch_compile import call, check_compile

EXPECT = [("recompile", "act")]


class Mlp(nn.Module):
    def __init__(self):
        super().__init__()
        self.act = "relu"

    def forward(self, x):  # HERE
        return x.relu() if self.act == "relu" else x.tanh()


def switch(target):
    target.act = "tanh"


def check(**options):
    x = torch.randn(4)
    return check_compile(Mlp(), calls=[call(x), call(x).before(switch)], backend="eager", **options)
