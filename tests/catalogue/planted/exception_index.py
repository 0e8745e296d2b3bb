"""An index that is out of range in the compiled leg, found when the graph runs."""

import torch

from pytest_torch_compile import check_compile

EXPECT = [("exception", "index")]


def target(x, rows):
    if torch.compiler.is_compiling():
        rows = rows + 1
    return x.index_select(0, rows) * 2


def check(**options):
    return check_compile(target, torch.randn(4, 3), torch.tensor([0, 3]), backend="eager", **options)
