"""A flag that only compiled code leaves on the module, and that later eager calls would read."""

import torch
from torch import nn

from pytest_torch_compile import check_compile

EXPECT = [("state", "use_fast_path")]


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x):
        if torch.compiler.is_compiling():
            self.use_fast_path = True
        return self.linear(x).relu()


def check(**options):
    return check_compile(Encoder(), torch.randn(2, 4), backend="eager", **options)
