"""A memo in the default of a keyword-only argument of a helper, written by both."""

import torch

from pytest_torch_compile import check_compile


def helper(x, *, memo={}):  # noqa: B006
    memo["last"] = 4
    return x.sin()


def target(x):
    return helper(x) * 2


def check(**options):
    report = check_compile(target, torch.randn(4), max_graph_breaks=9, max_recompiles=9, backend="eager", **options)
    assert helper.__kwdefaults__ == {"memo": {}}
    return report
