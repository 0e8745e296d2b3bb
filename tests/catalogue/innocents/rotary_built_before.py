"""Rotary tables in a plain attribute that a forward of the test itself has built already."""

import torch
from torch import nn

from pytest_torch_compile import check_compile


class Rotary(nn.Module):
    def __init__(self):
        super().__init__()
        self.project = nn.Linear(4, 4)
        self.cos = None

    def forward(self, x):
        if self.cos is None or self.cos.shape[0] < x.shape[0]:
            self.cos = (torch.arange(x.shape[0])[:, None] / 100 ** (torch.arange(4) / 4)).cos()
        return self.project(x) * self.cos[: x.shape[0]]


def check(**options):
    model = Rotary()
    model(torch.randn(5, 4))
    table = model.cos
    report = check_compile(model, torch.randn(3, 4), backend="eager", train=True, **options)
    assert model.cos is table
    return report
