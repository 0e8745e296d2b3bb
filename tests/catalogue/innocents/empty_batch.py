"""A batch of size zero from beginning to end."""

import torch
from torch import nn

from pytest_torch_compile import check_compile


def check(**options):
    return check_compile(nn.Linear(4, 4), torch.randn(0, 4), backend="aot_eager", train=True, **options)
