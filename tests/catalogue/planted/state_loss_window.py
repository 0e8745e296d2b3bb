"""A deque of the last losses that the compiled step does not append to."""

import collections

import torch
from torch import nn

from pytest_torch_compile import check_compile

EXPECT = [("state", "recent_losses")]


class Smoothed(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 1)
        self.recent_losses = collections.deque([torch.ones(())], maxlen=3)

    def forward(self, x, y):
        loss = (self.linear(x) - y).square().mean()
        if not torch.compiler.is_compiling():
            self.recent_losses.append(loss.detach())
        return loss


def check(**options):
    return check_compile(Smoothed(), torch.randn(3, 4), torch.randn(3, 1), backend="eager", train=True, **options)
