"""Batch normalisation in training mode: running statistics and their counter are updated."""

import torch
from torch import nn

from pytest_torch_compile import check_compile


def check(**options):
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU()).train()
    calls = [(torch.randn(2, 3, 8, 8),), (torch.randn(2, 3, 8, 8),)]
    return check_compile(model, calls=calls, backend="aot_eager", train=True, **options)
