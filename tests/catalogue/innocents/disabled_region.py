"""A region with `torch.compiler.disable`, under a budget that allows one break."""

import torch

from pytest_torch_compile import check_compile


@torch.compiler.disable
def lookup(x):
    return x + 1


def target(x):
    y = x.sin()
    y = lookup(y)
    return y * 2


def check(**options):
    return check_compile(target, torch.randn(4), backend="eager", max_graph_breaks=1, **options)
