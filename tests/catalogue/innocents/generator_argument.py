"""A running generator as an argument: it cannot be put back, and it is no difference between eager and compiled."""

import torch

from pytest_torch_compile import check_compile

ALSO = {"not-observable"}


@torch.compiler.disable
def draw(scales):
    return next(scales)


def target(x, scales):
    y = x.sin() * 2
    return y * draw(scales)


def check(**options):
    scales = (scale for scale in (1.0, 2.0, 4.0, 8.0))
    return check_compile(
        target, torch.ones(4), scales, max_graph_breaks=9, max_recompiles=9, backend="eager", **options
    )
