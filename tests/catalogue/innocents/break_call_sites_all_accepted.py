"""A helper breaks from two lines, and both breaks are accepted, in the order and the set they were reported in."""

import torch

from pytest_torch_compile import check_compile


def gather(x):
    torch._dynamo.graph_break()
    return x.sum(0)


def target(x):
    y = gather(x.sin()) * 2
    return gather(x + y)


def check(**options):
    x = torch.randn(3, 4)
    options = {"backend": "eager", "max_recompiles": 4, **options}
    found = check_compile(target, x, max_graph_breaks=9, **options).graph_breaks
    return check_compile(target, x, accepted_breaks=(one.fingerprint for one in found), **options)
