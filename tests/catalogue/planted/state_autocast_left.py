"""Autocast is switched on by hand in eager only, and stays on."""

import torch

from pytest_torch_compile import check_compile

EXPECT = [("state", "autocast")]


def target(x):
    if not torch.compiler.is_compiling():
        torch.set_autocast_enabled("cpu", True)
    return x.sin() * 2


def check(**options):
    try:
        return check_compile(target, torch.randn(4), max_graph_breaks=9, max_recompiles=9, backend="eager", **options)
    finally:
        left = torch.is_autocast_enabled("cpu")
        torch.set_autocast_enabled("cpu", False)
        assert not left
