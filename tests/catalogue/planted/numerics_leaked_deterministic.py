"""Deterministic mode leaked in, and a compiled path takes another algorithm that is off by one element."""

import torch

from pytest_torch_compile import check_compile

EXPECT = [("numerics", "")]


def target(x, index):
    out = torch.zeros(4).index_add(0, index, x)
    if torch.compiler.is_compiling() and torch.are_deterministic_algorithms_enabled():
        out = torch.zeros(4).index_copy(0, index, x)
    return out


def check(**options):
    index = torch.tensor([0, 1, 1, 3])
    torch.use_deterministic_algorithms(True)
    try:
        return check_compile(target, torch.arange(1.0, 5.0), index, backend="eager", **options)
    finally:
        torch.use_deterministic_algorithms(False)
