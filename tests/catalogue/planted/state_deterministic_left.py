"""Deterministic algorithms are asked for in eager only, and the flag stays."""

import torch

from pytest_torch_compile import check_compile

EXPECT = [("state", "deterministic")]


def target(x):
    if not torch.compiler.is_compiling():
        torch.use_deterministic_algorithms(True)
    return x.sin() * 2


def check(**options):
    try:
        return check_compile(target, torch.randn(4), max_graph_breaks=9, max_recompiles=9, backend="eager", **options)
    finally:
        left = torch.are_deterministic_algorithms_enabled()
        torch.use_deterministic_algorithms(False)
        assert not left
