"""A tensor and its expanded form as arguments: a write to the first is seen in each row of the other."""

import torch

from pytest_torch_compile import check_compile


def target(base, wide):
    base.add_(1)
    return wide * 2


def check(**options):
    base = torch.ones(1, 4)
    return check_compile(
        target, base, base.expand(3, 4), max_graph_breaks=9, max_recompiles=9, backend="eager", **options
    )
