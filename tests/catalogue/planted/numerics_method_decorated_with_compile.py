"""A method that its class decorates with torch.compile, and that is wrong when it is compiled."""

import torch
from torch import nn

from pytest_torch_compile import check_compile

EXPECT = [("numerics", "output")]


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)

    @torch.compile(backend="eager")
    def step(self, x):
        return self.linear(x) * (1.01 if torch.compiler.is_compiling() else 1.0)


def check(**options):
    return check_compile(Model().step, torch.randn(2, 4), backend="eager", **options)
