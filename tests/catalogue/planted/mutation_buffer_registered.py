"""A buffer that is registered with the first call, in eager only."""

import torch
from torch import nn

from pytest_torch_compile import check_compile

EXPECT = [("mutation|state", "scale")]


class Model(nn.Module):
    def forward(self, x):
        if not torch.compiler.is_compiling():
            self.register_buffer("scale", torch.full((4,), 2.0))
        return x.sin() * 2


def check(**options):
    return check_compile(Model(), torch.randn(4), backend="eager", **options)
