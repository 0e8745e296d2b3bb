"""Three blocks of one class in an `nn.Sequential`, each of which breaks: one line of one class."""

import torch
from torch import nn

from pytest_torch_compile import check_compile


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x):
        y = self.layer(x)
        torch._dynamo.graph_break()
        return y.relu()


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.Sequential(Block(), Block(), Block())

    def forward(self, x):
        return self.blocks(x)


def check(**options):
    options = {"backend": "eager", "max_graph_breaks": 1, "max_recompiles": 8, **options}
    return check_compile(Model(), torch.randn(2, 4), **options)
