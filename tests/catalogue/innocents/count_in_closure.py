"""`itertools.count` in a closure numbers the calls, and starts at one for the caller afterwards."""

import itertools

import torch

from pytest_torch_compile import check_compile


def check(**options):
    numbers = itertools.count(1)

    def target(x):
        y = x.sin()
        return y * next(numbers)

    report = check_compile(
        target, calls=[torch.ones(4)] * 2, max_graph_breaks=9, max_recompiles=9, backend="eager", **options
    )
    assert next(numbers) == 1
    return report
