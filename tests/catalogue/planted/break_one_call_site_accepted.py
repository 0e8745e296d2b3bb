"""Of the two lines that call a helper, one is accepted by its fingerprint: the other one is still found."""

import torch

from pytest_torch_compile import check_compile

EXPECT = [("graph-break", "graph break 1 of 1")]


def gather(x):
    torch._dynamo.graph_break()  # HERE, met from two lines of which the first is accepted
    return x.sum(0)


def first(x):
    return gather(x.sin()) * 2


def target(x):
    y = first(x)
    return gather(x + y)


def check(**options):
    x = torch.randn(3, 4)
    known = check_compile(first, x, backend="eager", max_graph_breaks=1).graph_breaks
    seen = check_compile(target, x, backend="eager", max_graph_breaks=9).graph_breaks
    accepted = [found.fingerprint for found in [*known, *seen[:1]]]
    return check_compile(target, x, backend="eager", accepted_breaks=accepted, **options)
