"""An input that is one of the model's own parameters."""

import torch
from torch import nn

from pytest_torch_compile import check_compile


def target(x, layer, weight):
    return layer(x) + x @ weight.t()


def check(**options):
    layer = nn.Linear(4, 4)
    return check_compile(target, torch.randn(2, 4), layer, layer.weight, backend="eager", train=True, **options)
