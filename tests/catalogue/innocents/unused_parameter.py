"""A parameter that takes no part, so that its gradient is None in both legs."""

import torch
from torch import nn

from pytest_torch_compile import check_compile


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.used = nn.Linear(4, 4)
        self.unused = nn.Linear(4, 4)

    def forward(self, x):
        return self.used(x)


def check(**options):
    return check_compile(Model(), torch.randn(2, 4), backend="aot_eager", train=True, **options)
