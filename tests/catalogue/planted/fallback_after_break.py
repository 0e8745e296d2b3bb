"""The recompile limit is hit in the second half of the target, after a break that is allowed."""

import torch

from pytest_torch_compile import check_compile

EXPECT = [("eager-fallback", "limit")]


def scale(x, factor):
    return x.sin() if factor == "a" else x.cos()


def target(x, factor):
    y = x + 1
    torch._dynamo.graph_break()  # HERE
    return scale(y, factor)


def check(**options):
    x = torch.randn(4)
    calls = [(x, factor) for factor in "abcdefghijklm"]
    limits = {"max_graph_breaks": 1, "max_recompiles": 99}
    return check_compile(target, calls=calls, backend="eager", **limits, **options)
