"""A graph layer whose adjacency is a sparse CSR buffer, in training."""

import torch
from torch import nn

from pytest_torch_compile import check_compile


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(2, 2)
        self.register_buffer("adjacency", torch.eye(4).to_sparse_csr())

    def forward(self, x):
        y = self.linear(x).relu() * 2
        return self.adjacency @ y


def check(**options):
    return check_compile(
        Layer(), torch.randn(4, 2), train=True, max_graph_breaks=9, max_recompiles=9, backend="eager", **options
    )
