"""An object that answers every attribute and notes which were asked for: after the check it knows of none."""

import torch
from torch import nn

from pytest_torch_compile import check_compile

ASKED = []


class Anything:
    def __getattr__(self, name):
        ASKED.append(name)
        return Anything()


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.tracker = Anything()
        self.linear = nn.Linear(4, 4)

    def forward(self, x):
        return self.linear(x)


def check(**options):
    model = Model()
    report = check_compile(model, torch.randn(2, 4), backend="eager", **options)
    assert ASKED == []
    return report
