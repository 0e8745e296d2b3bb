"""A sparse CSR matrix as an argument."""

import torch

from pytest_torch_compile import check_compile


def target(adjacency, x):
    y = x.sin() * 2 + 1
    return adjacency @ y


def check(**options):
    adjacency = torch.eye(4).to_sparse_csr()
    return check_compile(
        target, adjacency, torch.randn(4, 2), max_graph_breaks=9, max_recompiles=9, backend="eager", **options
    )
