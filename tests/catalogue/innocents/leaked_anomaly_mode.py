"""Anomaly mode was left on while a NaN was hunted: a right training step is still right."""

import torch
from torch import nn

from pytest_torch_compile import check_compile


def check(**options):
    model, x = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1)), torch.randn(2, 4)
    with torch.autograd.set_detect_anomaly(True):
        return check_compile(model, x, train=True, backend="aot_eager", **options)
