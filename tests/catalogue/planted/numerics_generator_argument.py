"""A running generator as an argument, and a factor of three in compiled code."""

import torch

from pytest_torch_compile import check_compile

EXPECT = [("numerics|not-observable", "")]


def target(x, scales):
    y = x.sin() * (3 if torch.compiler.is_compiling() else 1)
    return y * next(scales)


def check(**options):
    scales = (scale for scale in (1.0, 2.0, 4.0, 8.0))
    return check_compile(
        target, torch.ones(4), scales, max_graph_breaks=9, max_recompiles=9, backend="eager", **options
    )
