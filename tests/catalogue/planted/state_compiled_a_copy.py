"""A wrapper that compiles a copy of the model: the hidden state moves on in the copy, not in the model."""

import copy

import torch
from torch import nn

from pytest_torch_compile import check_compile

EXPECT = [("state", "hidden")]


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = nn.GRUCell(4, 4)
        self.hidden = torch.zeros(2, 4)

    def forward(self, x):
        self.hidden = self.cell(x, self.hidden)
        return self.hidden * 1.0


def compile_a_copy(model):
    return torch.compile(copy.deepcopy(model), backend="eager", fullgraph=True)


@torch.no_grad()
def check(**options):
    return check_compile(Recurrent(), torch.randn(2, 4), compile=compile_a_copy, **options)
