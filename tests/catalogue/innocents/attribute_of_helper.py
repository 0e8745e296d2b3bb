"""A helper counts its calls in an attribute of its own, and has none to count for the caller afterwards."""

import torch

from pytest_torch_compile import check_compile


def helper(x):
    y = x.sin() * 2
    helper.calls += 1
    return y


helper.calls = 0


def target(x):
    return helper(x) + 1


def check(**options):
    report = check_compile(target, torch.randn(4), max_graph_breaks=9, max_recompiles=9, backend="eager", **options)
    assert helper.calls == 0
    return report
