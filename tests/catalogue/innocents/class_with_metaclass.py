"""A metaclass that keeps a list of calls, the same in eager and compiled."""

import torch

from pytest_torch_compile import check_compile


class Counted(type):
    calls = []


class Scaled(metaclass=Counted):
    factor = 2


@torch.compiler.disable
def note():
    Counted.calls.append(Scaled.factor)


def target(x):
    y = x.sin() * Scaled.factor
    note()
    return y + 1


def check(**options):
    report = check_compile(target, torch.randn(4), max_graph_breaks=9, max_recompiles=9, backend="eager", **options)
    assert Counted.calls == []
    return report
