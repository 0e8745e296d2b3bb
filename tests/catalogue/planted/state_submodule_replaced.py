"""An activation that eager replaces by another after the call."""

import torch
from torch import nn

from pytest_torch_compile import check_compile

EXPECT = [("state|mutation", "act")]
ALSO = {"numerics", "state", "mutation"}


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.act = nn.ReLU()

    def forward(self, x):
        y = self.act(x) * 2
        if not torch.compiler.is_compiling():
            self.act = nn.Tanh()
        return y


def check(**options):
    return check_compile(Model(), torch.randn(4), backend="eager", **options)
