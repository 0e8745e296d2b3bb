"""Eager and compiled leave grad mode off, and the caller's is on afterwards."""

import torch

from pytest_torch_compile import check_compile


def target(x):
    y = x.sin() * 2
    torch.set_grad_enabled(False)
    return y


def check(**options):
    try:
        report = check_compile(target, torch.randn(4), max_graph_breaks=9, max_recompiles=9, backend="eager", **options)
        assert torch.is_grad_enabled()
    finally:
        torch.set_grad_enabled(True)
    return report
