"""A weight under spectral norm, whose power iteration updates buffers in training."""

import torch
from torch import nn
from torch.nn.utils.parametrizations import spectral_norm

from pytest_torch_compile import check_compile


def check(**options):
    return check_compile(spectral_norm(nn.Linear(4, 4)), torch.randn(2, 4), backend="eager", **options)
