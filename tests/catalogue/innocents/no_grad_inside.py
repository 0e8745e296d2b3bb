"""A part of the forward under no_grad, as a momentum encoder has it."""

import torch
from torch import nn

from pytest_torch_compile import check_compile


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.online = nn.Linear(4, 4)
        self.teacher = nn.Linear(4, 4)

    def forward(self, x):
        with torch.no_grad():
            goal = self.teacher(x)
        return (self.online(x) - goal).square().mean(), goal


def check(**options):
    return check_compile(Model(), torch.randn(2, 4), backend="aot_eager", train=True, **options)
