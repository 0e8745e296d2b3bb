"""A sparse CSC and a sparse COO matrix as arguments."""

import torch

from pytest_torch_compile import check_compile


def target(one, two, x):
    y = x.sin() * 2 + 1
    return one @ y + two @ y


def check(**options):
    eye = torch.eye(4)
    return check_compile(
        target,
        eye.to_sparse_csc(),
        eye.to_sparse(),
        torch.randn(4, 2),
        max_graph_breaks=9,
        max_recompiles=9,
        backend="eager",
        **options,
    )
