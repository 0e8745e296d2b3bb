"""The precision of float32 products is lowered for one of them and put back."""

import torch

from pytest_torch_compile import check_compile


@torch.compiler.disable
def rough(x):
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("medium")
    try:
        return x @ x
    finally:
        torch.set_float32_matmul_precision(before)


def target(x):
    y = x.sin()
    return rough(y)


def check(**options):
    return check_compile(target, torch.eye(4), max_graph_breaks=9, max_recompiles=9, backend="eager", **options)
