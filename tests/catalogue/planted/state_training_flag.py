"""A wrapper that puts the model into eval mode before it compiles it, and leaves it there."""

import torch
from torch import nn

from pytest_torch_compile import check_compile

EXPECT = [("state", "training")]


def compile_for_serving(model):
    return torch.compile(model.eval(), backend="eager", fullgraph=True)


def check(**options):
    model = nn.Sequential(nn.Linear(4, 4), nn.LayerNorm(4), nn.ReLU())
    return check_compile(model, torch.randn(2, 4), compile=compile_for_serving, **options)
