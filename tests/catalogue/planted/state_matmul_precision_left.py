"""The precision of float32 products is lowered in eager only."""

import torch

from pytest_torch_compile import check_compile

EXPECT = [("state", "precision")]


def target(x):
    if not torch.compiler.is_compiling():
        torch.set_float32_matmul_precision("medium")
    return x @ x


def check(**options):
    before = torch.get_float32_matmul_precision()
    try:
        return check_compile(target, torch.eye(4), max_graph_breaks=9, max_recompiles=9, backend="eager", **options)
    finally:
        left = torch.get_float32_matmul_precision()
        torch.set_float32_matmul_precision(before)
        assert left == before
