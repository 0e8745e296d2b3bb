"""Two lines call a helper that calls the helper that breaks: the line that breaks and its caller are the same."""

import torch

from pytest_torch_compile import check_compile

EXPECT = [("graph-break", "graph break 1 of 2, 1 allowed"), ("graph-break", "graph break 2 of 2, 1 allowed")]


def largest(x):
    return x.abs().max().item()  # HERE, met from two lines of target


def rescale(x):
    return x / largest(x)


def target(query, key):
    query = rescale(query.sin())
    key = rescale(key.cos())
    return query @ key.t()


def check(**options):
    query, key = torch.randn(3, 4), torch.randn(3, 4)
    return check_compile(target, query, key, backend="eager", max_graph_breaks=1, max_recompiles=8, **options)
