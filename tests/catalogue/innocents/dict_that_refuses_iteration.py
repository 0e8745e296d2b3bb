"""A dict that cannot be iterated, compared or asked for its length, beside a layer that needs none of it."""

import torch
from torch import nn

from pytest_torch_compile import check_compile


class Vault(dict):
    def __iter__(self):
        raise TypeError("a vault is not listed")

    keys = values = items = __iter__

    def __len__(self):
        raise TypeError("a vault is not counted")

    def __eq__(self, other):
        raise TypeError("a vault is not compared")

    __hash__ = None


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.vault = Vault(token="secret", rate=0.5)
        self.linear = nn.Linear(4, 4)

    def forward(self, x):
        return self.linear(x).relu()


def check(**options):
    return check_compile(Model(), torch.randn(2, 4), train=True, backend="aot_eager", **options)
