"""A target that the caller has compiled: eager is still eager, and the check adds nothing of its own."""

import torch
from torch import nn

from pytest_torch_compile import check_compile


def check(**options):
    return check_compile(torch.compile(nn.Linear(4, 4), backend="eager"), torch.randn(2, 4), backend="eager", **options)
