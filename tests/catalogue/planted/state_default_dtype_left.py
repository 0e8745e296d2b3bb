"""Eager leaves another default dtype, and compiled code does not."""

import torch

from pytest_torch_compile import check_compile

EXPECT = [("state", "dtype")]


def target(x):
    if not torch.compiler.is_compiling():
        torch.set_default_dtype(torch.float64)
    return x.sin() * 2


def check(**options):
    try:
        return check_compile(target, torch.randn(4), max_graph_breaks=9, max_recompiles=9, backend="eager", **options)
    finally:
        left = torch.get_default_dtype()
        torch.set_default_dtype(torch.float32)
        assert left == torch.float32
