"""Twelve string values: past the recompile limit the calls run in eager without a word."""

import torch

from pytest_torch_compile import check_compile

EXPECT = [("eager-fallback", "limit")]


def target(x, name):  # HERE
    return x.sin() if name == "a" else x.cos()


def check(**options):
    x = torch.randn(4)
    calls = [(x, name) for name in "abcdefghijkl"]
    return check_compile(target, calls=calls, backend="eager", fullgraph=False, max_recompiles=20, **options)
