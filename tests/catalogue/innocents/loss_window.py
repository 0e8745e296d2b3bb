"""A deque of the last losses and a set of lengths, filled by both legs in training."""

import collections

import torch
from torch import nn

from pytest_torch_compile import check_compile


class Smoothed(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 1)
        self.recent_losses = collections.deque([torch.ones(())], maxlen=3)
        self.lengths_seen = {2}

    def forward(self, x, y):
        loss = (self.linear(x) - y).square().mean()
        self.recent_losses.append(loss.detach())
        self.lengths_seen.add(x.shape[0])
        return loss


def check(**options):
    return check_compile(Smoothed(), torch.randn(3, 4), torch.randn(3, 1), backend="eager", train=True, **options)
