"""A running generator in a closure, and a factor of three in compiled code."""

import torch

from pytest_torch_compile import check_compile

EXPECT = [("numerics|not-observable", "")]


def warm_up():
    scale = 0.5
    while True:
        scale = scale * 1.5
        yield scale


def check(**options):
    scales = warm_up()
    next(scales)

    def target(x):
        y = x.sin() * (3 if torch.compiler.is_compiling() else 1)
        return y * next(scales)

    return check_compile(target, torch.ones(4), max_graph_breaks=9, max_recompiles=9, backend="eager", **options)
