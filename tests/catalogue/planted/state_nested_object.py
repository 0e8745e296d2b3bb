"""A statistic three objects below the module, whose in-place update acts on a copy in compiled code."""

import torch
from torch import nn

from pytest_torch_compile import check_compile

EXPECT = [("state", "peak")]


class Range:
    def __init__(self):
        self.peak = torch.zeros(4)


class Observer:
    def __init__(self):
        self.ranges = {"input": Range()}


class Quantised(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.observer = Observer()

    def forward(self, x):
        peak = self.observer.ranges["input"].peak
        if torch.compiler.is_compiling():
            peak = peak.clone()
        torch.maximum(peak, x.abs().amax(0), out=peak)
        return self.linear(x)


def check(**options):
    return check_compile(Quantised(), torch.randn(3, 4), backend="eager", **options)
