"""A state object without `__eq__`, made new by each call: equal in content, never equal as an object."""

import torch
from torch import nn

from pytest_torch_compile import check_compile


class Statistics:
    def __init__(self, mean, count):
        self.mean = mean
        self.count = count


class Centre(nn.Module):
    def __init__(self):
        super().__init__()
        self.statistics = Statistics(torch.zeros(4), 0)

    def forward(self, x):
        mean = x.mean(0)
        self.statistics = Statistics(mean, self.statistics.count + x.shape[0])
        return x - mean


def check(**options):
    return check_compile(Centre(), torch.randn(3, 4), backend="eager", **options)
