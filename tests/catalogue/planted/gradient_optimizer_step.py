"""The loss is right and its gradient is too small, which only the parameters after the steps show."""

import torch
from torch import nn

from pytest_torch_compile import check_compile

EXPECT = [("gradient", "weight")]
ALSO = {"mutation", "numerics"}


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x):
        y = self.linear(x)
        if torch.compiler.is_compiling():
            y = y * 0.5 + (y * 0.5).detach()
        return y


def sgd(params):
    return torch.optim.SGD(params, lr=0.1)


def check(**options):
    return check_compile(Model(), torch.randn(2, 4), backend="eager", train=True, optimizer=sgd, steps=2, **options)
