"""The values of a sparse CSR buffer are halved in eager only."""

import torch
from torch import nn

from pytest_torch_compile import check_compile

EXPECT = [("mutation|state", "adjacency")]


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("adjacency", torch.eye(4).to_sparse_csr())

    def forward(self, x):
        if not torch.compiler.is_compiling():
            self.adjacency.values().mul_(0.5)
        return x.sin() * 2


def check(**options):
    return check_compile(Layer(), torch.randn(4, 2), max_graph_breaks=9, max_recompiles=9, backend="eager", **options)
