"""A set in a tuple in a list in a dict, to which compiled code adds nothing."""

import torch
from torch import nn

from pytest_torch_compile import check_compile

EXPECT = [("state", "tree")]


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.tree = {"branches": [({"one"}, 2)]}

    def forward(self, x):
        if not torch.compiler.is_compiling():
            self.tree["branches"][0][0].add("two")
        return x.sin() * 2


def check(**options):
    return check_compile(Model(), torch.randn(4), backend="eager", **options)
