"""A module that weighs its input by the gradient that its weight has."""

import torch
from torch import nn

from pytest_torch_compile import check_compile


class Saliency(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(4))

    def forward(self, x):
        return x * self.weight.grad.abs()


def check(**options):
    model = Saliency()
    (model.weight * 3).sum().backward()
    return check_compile(model, torch.randn(4), backend="eager", **options)
