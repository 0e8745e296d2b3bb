"""Experts kept in a plain list, out of the module tree: one of them loses its count of routed tokens."""

import torch
from torch import nn

from pytest_torch_compile import check_compile

EXPECT = [("state", "tokens_routed")]


class Expert(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.tokens_routed = 0

    def forward(self, x, count=True):
        if count:
            self.tokens_routed += x.shape[0]
        return self.linear(x)


class Mixture(nn.Module):
    def __init__(self):
        super().__init__()
        self.experts = [Expert(), Expert()]

    def forward(self, x):
        first, second = x.chunk(2)
        return torch.cat([self.experts[0](first), self.experts[1](second, count=not torch.compiler.is_compiling())])


def check(**options):
    return check_compile(Mixture(), torch.randn(4, 4), backend="eager", **options)
