"""The model logs an auxiliary loss through a helper that appends to a module-level list; compiled code does not."""

import torch
from torch import nn

from pytest_torch_compile import check_compile

EXPECT = [("state", "auxiliary_losses")]

auxiliary_losses = []


def add_auxiliary_loss(loss):
    if torch.compiler.is_compiling():
        return
    auxiliary_losses.append(loss)


class Router(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate = nn.Linear(4, 2)

    def forward(self, x):
        weights = self.gate(x).softmax(-1)
        add_auxiliary_loss(weights.mean(0).square().sum())
        return weights


@torch.no_grad()
def check(**options):
    try:
        return check_compile(Router(), torch.randn(3, 4), backend="eager", **options)
    finally:
        assert not auxiliary_losses
