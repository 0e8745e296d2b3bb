"""Dropout inside activation checkpointing, which replays the random stream."""

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from pytest_torch_compile import check_compile


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.block = nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.5), nn.Linear(8, 4))

    def forward(self, x):
        return x + checkpoint(self.block, x, use_reentrant=False)


def check(**options):
    return check_compile(Model().train(), torch.randn(2, 4), backend="aot_eager", train=True, **options)
