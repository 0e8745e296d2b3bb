"""A frozen layer lets no gradient through when it is compiled: the layer before it is never trained."""

import torch
from torch import nn

from pytest_torch_compile import check_compile

EXPECT = [("gradient", "first.weight")]


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.frozen = nn.Linear(4, 4), nn.Linear(4, 4).requires_grad_(False)
        self.last = nn.Linear(4, 4)

    def forward(self, x):
        half = self.first(x)
        if torch.compiler.is_compiling():
            half = half.detach()
        return self.last(self.frozen(half).relu())


def check(**options):
    return check_compile(Model(), torch.randn(4, 4), backend="eager", train=True, **options)
