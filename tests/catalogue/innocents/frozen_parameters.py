"""A backbone without gradients under a head that has them."""

import torch
from torch import nn

from pytest_torch_compile import check_compile


def check(**options):
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 2))
    model[0].requires_grad_(False)
    return check_compile(model, torch.randn(3, 4), backend="aot_eager", train=True, **options)
