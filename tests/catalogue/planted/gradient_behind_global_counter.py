"""A module-level loss scale grows with every call, and the gradient is off by four behind it."""

import torch
from torch import nn

from pytest_torch_compile import check_compile

EXPECT = [("gradient", "weight")]

scaler = {"growth": torch.ones(())}


class Scaled(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 1)

    def forward(self, x):
        scaler["growth"] = scaler["growth"] * 2
        loss = self.linear(x).square().mean() * scaler["growth"]
        if torch.compiler.is_compiling():
            loss = loss * 4 - (loss * 3).detach()
        return loss


def check(**options):
    return check_compile(Scaled(), torch.randn(3, 4), backend="eager", train=True, **options)
