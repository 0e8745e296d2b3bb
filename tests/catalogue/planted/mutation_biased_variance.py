"""A running variance that takes the biased estimate when compiled: two per cent off after one step."""

import torch
from torch import nn

from pytest_torch_compile import check_compile

EXPECT = [("mutation", "variance")]


class Norm(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("variance", torch.ones(4))

    def forward(self, x):
        variance = x.var(0, unbiased=not torch.compiler.is_compiling())
        self.variance.lerp_(variance, 0.1)
        return (x - x.mean(0)) / x.var(0, unbiased=False).sqrt()


def check(**options):
    return check_compile(Norm(), torch.randn(16, 4), backend="eager", **options)
