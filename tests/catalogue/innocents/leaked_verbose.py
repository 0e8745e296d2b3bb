"""`verbose` of dynamo leaked in: more is printed where something fails, and nothing fails."""

import torch
from torch import nn

from pytest_torch_compile import check_compile


def check(**options):
    with torch._dynamo.config.patch(verbose=True):
        return check_compile(nn.Linear(4, 4), torch.randn(2, 4), backend="eager", **options)
