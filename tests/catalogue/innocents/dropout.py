"""Dropout under one seed, with the eager backend."""

import torch
from torch import nn

from pytest_torch_compile import check_compile


def check(**options):
    model = nn.Sequential(nn.Linear(8, 8), nn.Dropout(0.5)).train()
    return check_compile(model, torch.randn(4, 8), backend="eager", train=True, **options)
