"""Two steps of AdamW on a small network under Inductor."""

import torch
from torch import nn

from pytest_torch_compile import check_compile


def check(**options):
    model = nn.Sequential(nn.Linear(8, 16), nn.LayerNorm(16), nn.Linear(16, 2))
    return check_compile(model, torch.randn(4, 8), train=True, optimizer=torch.optim.AdamW, steps=2, **options)
