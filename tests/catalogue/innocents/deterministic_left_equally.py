"""Deterministic algorithms are asked for in both, and the caller's flag is as before."""

import torch

from pytest_torch_compile import check_compile


@torch.compiler.disable
def ask():
    torch.use_deterministic_algorithms(True)


def target(x):
    y = x.sin()
    ask()
    return y * 2


def check(**options):
    try:
        report = check_compile(target, torch.randn(4), max_graph_breaks=9, max_recompiles=9, backend="eager", **options)
        assert not torch.are_deterministic_algorithms_enabled()
    finally:
        torch.use_deterministic_algorithms(False)
    return report
