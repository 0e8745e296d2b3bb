"""A generator in a closure that is asked in each call, and never answers the same twice."""

import torch

from pytest_torch_compile import check_compile

ALSO = {"not-observable"}


def doubling():
    scale = 1.0
    while True:
        yield scale
        scale *= 2


def check(**options):
    scales = doubling()

    @torch.compiler.disable
    def draw():
        return next(scales)

    def target(x):
        y = x.sin() * 2
        return y * draw()

    return check_compile(
        target, calls=[torch.ones(4)] * 2, max_graph_breaks=9, max_recompiles=9, backend="eager", **options
    )
