"""A dict that cannot be iterated or asked for its length: compiled code does not write its key."""

import torch
from torch import nn

from pytest_torch_compile import check_compile

EXPECT = [("state", "vault")]


class Vault(dict):
    def __iter__(self):
        raise TypeError("a vault is not listed")

    keys = values = items = __iter__

    def __len__(self):
        raise TypeError("a vault is not counted")


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.vault = Vault(steps=0)

    def forward(self, x):
        if not torch.compiler.is_compiling():
            self.vault["steps"] = 1
        return x.sin() * 2


def check(**options):
    return check_compile(Model(), torch.randn(4), backend="eager", **options)
