"""Graph break on a path that only training mode takes."""

import torch
from torch import nn

from pytest_torch_compile import check_compile

EXPECT = [("graph-break", "print")]


class Head(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 2)

    def forward(self, x):
        y = self.linear(x)
        if self.training:
            print("step", end="")  # HERE
        return y.softmax(-1)


def check(**options):
    return check_compile(Head().train(), torch.randn(3, 4), backend="eager", train=True, **options)
