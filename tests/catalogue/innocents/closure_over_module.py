"""A function that closes over a module whose buffers it updates."""

import torch
from torch import nn

from pytest_torch_compile import check_compile


def check(**options):
    norm = nn.BatchNorm1d(4)

    def target(x):
        return norm(x) + norm.num_batches_tracked

    report = check_compile(target, torch.randn(3, 4), backend="eager", **options)
    assert norm.num_batches_tracked.item() == 0
    return report
