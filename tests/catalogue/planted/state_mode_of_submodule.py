"""A submodule is put into evaluation in eager only: the next batch is normalised in another way."""

import torch
from torch import nn

from pytest_torch_compile import check_compile

EXPECT = [("state", "training")]
ALSO = {"numerics", "mutation"}


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(4)

    def forward(self, x):
        y = self.norm(x)
        if not torch.compiler.is_compiling():
            self.norm.training = False
        return y * 2


def check(**options):
    return check_compile(Model(), torch.randn(8, 4), max_graph_breaks=9, max_recompiles=9, backend="eager", **options)
