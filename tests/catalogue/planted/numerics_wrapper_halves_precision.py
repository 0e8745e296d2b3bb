"""A wrapper that casts the weights to bfloat16 and back, which loses most of their digits; the caller keeps his."""

import torch
from torch import nn

from pytest_torch_compile import check_compile

EXPECT = [("numerics", "")]
ALSO = {"state", "mutation"}


def compiled(model):
    return torch.compile(model.bfloat16().float(), backend="eager")


def check(**options):
    model = nn.Linear(64, 4)
    before = model.weight.detach().clone()
    try:
        return check_compile(model, torch.randn(2, 64), compile=compiled, **options)
    finally:
        assert torch.equal(model.weight, before)
