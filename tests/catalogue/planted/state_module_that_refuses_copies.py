"""A module that refuses to be copied: its steps are lost when compiled."""

import torch
from torch import nn

from pytest_torch_compile import check_compile

EXPECT = [("state", "steps")]


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.steps = 0

    def __deepcopy__(self, memo):
        raise RuntimeError("this model exists once")

    __reduce_ex__ = __copy__ = __deepcopy__

    def forward(self, x):
        if not torch.compiler.is_compiling():
            self.steps += 1
        return self.linear(x).tanh()


def check(**options):
    return check_compile(Model(), torch.randn(2, 4), backend="eager", **options)
