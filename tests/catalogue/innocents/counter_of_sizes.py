"""A `Counter` of sizes that both count in."""

import collections

import torch

from pytest_torch_compile import check_compile

SEEN = collections.Counter({4: 1})


def target(x):
    y = x.sin()
    SEEN[x.shape[0]] += 1
    return y * 2


def check(**options):
    report = check_compile(target, torch.randn(4), max_graph_breaks=9, max_recompiles=9, backend="eager", **options)
    assert SEEN == {4: 1}
    return report
