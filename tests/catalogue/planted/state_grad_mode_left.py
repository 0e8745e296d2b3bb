"""Compiled code leaves grad mode off."""

import torch

from pytest_torch_compile import check_compile

EXPECT = [("state", "grad")]


def target(x):
    torch.set_grad_enabled(not torch.compiler.is_compiling())
    return x.sin() * 2


def check(**options):
    report = None
    try:
        report = check_compile(target, torch.randn(4), max_graph_breaks=9, max_recompiles=9, backend="eager", **options)
    finally:
        enabled = torch.is_grad_enabled()
        torch.set_grad_enabled(True)
        assert enabled
    return report
