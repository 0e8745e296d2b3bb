"""Dropout and its gradient under Inductor, over two calls: the mask of the backward is that of the forward."""

import torch
from torch import nn

from pytest_torch_compile import check_compile


def check(**options):
    model = nn.Sequential(nn.Linear(8, 8), nn.Dropout(0.3), nn.Linear(8, 2)).train()
    calls = [(torch.randn(4, 8),), (torch.randn(4, 8),)]
    return check_compile(model, calls=calls, train=True, **options)
