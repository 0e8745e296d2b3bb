"""A table whose keys refuse to be hashed once it is built."""

import torch
from torch import nn

from pytest_torch_compile import check_compile


class Key:
    sealed = False

    def __hash__(self):
        if Key.sealed:
            raise RuntimeError("the table is sealed")
        return 1

    def __eq__(self, other):
        return self is other


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = {Key(): 1, Key(): 2}
        self.linear = nn.Linear(4, 4)

    def forward(self, x):
        return self.linear(x)


def check(**options):
    Key.sealed = False
    model = Model()
    Key.sealed = True
    return check_compile(model, torch.randn(2, 4), backend="eager", **options)
