"""Boolean mask indexing in the default mode."""

import torch

from pytest_torch_compile import check_compile

EXPECT = [("graph-break", "")]


def target(x):
    y = x.sin()
    kept = y[y > 0]  # HERE
    return kept * 2


def check(**options):
    return check_compile(target, torch.tensor([1.0, -1.0, 2.0]), backend="eager", fullgraph=False, **options)
