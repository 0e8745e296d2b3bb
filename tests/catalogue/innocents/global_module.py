"""A function that reads a global module and updates its buffers: the caller's module stays as it was."""

import torch
from torch import nn

from pytest_torch_compile import check_compile

norm = nn.BatchNorm1d(4)


def target(x):
    return norm(x) + norm.num_batches_tracked


def check(**options):
    report = check_compile(target, torch.randn(3, 4), backend="eager", **options)
    assert norm.num_batches_tracked.item() == 0
    return report
