"""The gradient of a mean has the same value everywhere, so compiled sums of it round in the same direction each time."""

import torch
from torch import nn

from pytest_torch_compile import check_compile


def check(**options):
    torch.manual_seed(0)
    layers = [nn.Conv2d(3, 64, 7, 4, 3), nn.BatchNorm2d(64), nn.ReLU6(), nn.MaxPool2d(2), nn.AdaptiveAvgPool2d(1)]
    model = nn.Sequential(*layers, nn.Flatten(), nn.Linear(64, 10), nn.LogSoftmax(-1))
    return check_compile(model, torch.randn(8, 3, 64, 64), train=lambda output: -output[:, 0].mean(), **options)
