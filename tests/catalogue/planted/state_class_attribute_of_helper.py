"""A class that a helper writes its settings on, twice as large when compiled."""

import torch

from pytest_torch_compile import check_compile

EXPECT = [("state", "level")]


class Settings:
    level = 0


def helper(x):
    Settings.level = 2 if torch.compiler.is_compiling() else 1
    return x.sin()


def target(x):
    return helper(x) * 2


def check(**options):
    return check_compile(target, torch.randn(4), max_graph_breaks=9, max_recompiles=9, backend="eager", **options)
