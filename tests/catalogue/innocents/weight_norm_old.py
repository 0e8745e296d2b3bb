"""Old-style weight norm: the module holds its weight as a plain tensor with a history, which no deepcopy takes."""

import torch
from torch import nn

from pytest_torch_compile import check_compile


def check(**options):
    model = nn.Sequential(nn.utils.weight_norm(nn.Linear(4, 6)), nn.Tanh(), nn.utils.weight_norm(nn.Linear(6, 2)))
    return check_compile(model, torch.randn(3, 4), backend="aot_eager", train=True, **options)
