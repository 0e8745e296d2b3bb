"""A list on a metaclass: torch's own graph break loses what is appended to it."""

import torch

from pytest_torch_compile import check_compile

EXPECT = [("state", "calls")]
BEFORE = (2, 13)


class Counted(type):
    calls = []


class Scaled(metaclass=Counted):
    factor = 2


def target(x):
    y = x.sin() * Scaled.factor
    Counted.calls.append(Scaled.factor)
    return y + 1


def check(**options):
    return check_compile(target, torch.randn(4), max_graph_breaks=9, max_recompiles=9, backend="eager", **options)
