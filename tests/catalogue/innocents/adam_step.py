"""Three steps of Adam, whose first step is very sensitive to the sign of small gradients."""

import torch
from torch import nn

from pytest_torch_compile import check_compile


def check(**options):
    model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 2))
    return check_compile(
        model, torch.randn(4, 8), backend="aot_eager", train=True, optimizer=torch.optim.Adam, steps=3, **options
    )
