"""A table whose keys refuse to be hashed again: the list under the first one is longer in eager only."""

import torch
from torch import nn

from pytest_torch_compile import check_compile

EXPECT = [("state", "")]


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
        self.table = {Key(): [], Key(): []}

    def forward(self, x):
        if not torch.compiler.is_compiling():
            next(iter(self.table.values())).append(1)
        return x.sin() * 2


def check(**options):
    Key.sealed = False
    model = Model()
    Key.sealed = True
    return check_compile(model, torch.randn(2, 4), backend="eager", **options)
