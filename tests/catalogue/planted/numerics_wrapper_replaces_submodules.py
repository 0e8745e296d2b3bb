"""A wrapper that compiles each block and puts the last one in the place of the first as well."""

import torch
from torch import nn

from pytest_torch_compile import check_compile

EXPECT = [("numerics", "")]
ALSO = {"state", "mutation"}


def regional(model):
    model[1] = torch.compile(model[1], backend="eager")
    model[0] = model[1]
    return model


def check(**options):
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))
    blocks = list(model)
    try:
        return check_compile(model, torch.randn(2, 4), compile=regional, **options)
    finally:
        assert list(model) == blocks
