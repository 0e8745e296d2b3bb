"""State that starts as NaN or infinite and partly stays so: a best score, a minimum and a maximum."""

import math

import torch
from torch import nn

from pytest_torch_compile import check_compile


class Observer(nn.Module):
    def __init__(self):
        super().__init__()
        self.best_score = math.nan
        self.minimum = torch.full((4,), math.inf)
        self.maximum = torch.full((4,), -math.inf)
        self.ratio = torch.tensor([1.0, math.nan])

    def forward(self, x):
        self.minimum = torch.minimum(self.minimum, x.amin(0))
        self.maximum[:2] = torch.maximum(self.maximum[:2], x.amax(0)[:2])
        self.ratio = self.ratio * 2
        return x * 2


def check(**options):
    return check_compile(Observer(), torch.randn(3, 4), backend="eager", **options)
