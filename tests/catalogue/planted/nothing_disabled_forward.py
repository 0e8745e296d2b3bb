"""The forward of the model is disabled for compilation."""

import torch
from torch import nn

from pytest_torch_compile import check_compile

EXPECT = [("graph-break", "disable"), ("nothing-compiled", "")]


class Model(nn.Module):
    @torch.compiler.disable  # HERE
    def forward(self, x):
        return x.sin() * 2


def check(**options):
    return check_compile(Model(), torch.randn(4), backend="eager", fullgraph=False, **options)
