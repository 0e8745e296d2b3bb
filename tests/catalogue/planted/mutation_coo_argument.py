"""The values of a sparse COO argument are halved in eager only."""

import torch

from pytest_torch_compile import check_compile

EXPECT = [("mutation|state", "")]


def target(x, weights):
    if not torch.compiler.is_compiling():
        weights.mul_(0.5)
    return x.sin() * 2


def check(**options):
    return check_compile(
        target,
        torch.randn(4),
        torch.eye(4).to_sparse().coalesce(),
        max_graph_breaks=9,
        max_recompiles=9,
        backend="eager",
        **options,
    )
