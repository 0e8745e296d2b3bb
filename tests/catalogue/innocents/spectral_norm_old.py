"""Old-style spectral norm of a discriminator, which updates its singular vectors in each training pass."""

import torch
from torch import nn

from pytest_torch_compile import check_compile


def check(**options):
    model = nn.Sequential(nn.utils.spectral_norm(nn.Linear(4, 6)), nn.LeakyReLU(0.2), nn.Linear(6, 1))
    return check_compile(model, torch.randn(3, 4), backend="aot_eager", train=True, **options)
