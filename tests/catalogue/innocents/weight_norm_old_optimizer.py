"""Three optimizer steps on an old-style weight-normed convolution, after a forward that left its weight with a history."""

import torch
from torch import nn

from pytest_torch_compile import check_compile


def sgd(params):
    return torch.optim.SGD(params, lr=0.05)


def check(**options):
    model = nn.Sequential(nn.utils.weight_norm(nn.Conv1d(2, 3, 3), dim=0), nn.ReLU())
    x = torch.randn(2, 2, 8)
    model(x).sum().backward()
    return check_compile(model, x, backend="aot_eager", train=True, optimizer=sgd, steps=3, **options)
