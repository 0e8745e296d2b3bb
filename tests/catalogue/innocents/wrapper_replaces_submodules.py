"""A wrapper that puts compiled blocks in the place of the blocks: the caller's model has its own afterwards."""

import torch
from torch import nn

from pytest_torch_compile import check_compile


def regional(model):
    for index, block in enumerate(model):
        model[index] = torch.compile(block, backend="aot_eager")
    return model


def check(**options):
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))
    blocks = list(model)
    report = check_compile(model, torch.randn(2, 4), compile=regional, train=True, **options)
    assert list(model) == blocks
    return report
