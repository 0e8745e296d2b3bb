"""A running generator in a closure, which torch's compiled code runs from its present value in each call, and never advances."""

import torch

from pytest_torch_compile import check_compile

EXPECT = [("numerics|not-observable", "")]
SINCE = (2, 15)


def doubling():
    scale = 1.0
    while True:
        yield scale
        scale *= 2


def check(**options):
    scales = doubling()

    def target(x):
        return x.sin() * next(scales)

    return check_compile(
        target, calls=[torch.ones(4)] * 2, max_graph_breaks=9, max_recompiles=9, backend="eager", **options
    )
