"""A test that imports `checkpoint` locally and closes over it: dynamo knows that function by its identity."""

import torch
from torch import nn

from pytest_torch_compile import check_compile


def check(**options):
    from torch.utils.checkpoint import checkpoint

    block = nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.Linear(8, 4))

    def forward(x):
        return checkpoint(block, x, use_reentrant=False) + x

    return check_compile(forward, torch.randn(2, 4, requires_grad=True), backend="aot_eager", train=True, **options)
