"""A sparse CSR matrix as an argument, and a factor of three in compiled code."""

import torch

from pytest_torch_compile import check_compile

EXPECT = [("numerics", "")]


def target(adjacency, x):
    y = x.sin() * (3 if torch.compiler.is_compiling() else 1)
    return adjacency @ y


def check(**options):
    adjacency = torch.eye(4).to_sparse_csr()
    return check_compile(
        target, adjacency, torch.randn(4, 2), max_graph_breaks=9, max_recompiles=9, backend="eager", **options
    )
