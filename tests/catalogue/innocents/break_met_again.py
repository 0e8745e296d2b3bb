"""One break in a helper, met by every call and retried by dynamo at every inlining level: it counts once."""

import torch

from pytest_torch_compile import check_compile


@torch.compiler.disable
def lookup(x):
    return x + 1


def step(x):
    y = x.sin()
    return lookup(y) * 2


def target(x):
    return step(x)


def check(**options):
    calls = [(torch.randn(4),)] * 3
    return check_compile(target, calls=calls, backend="eager", max_graph_breaks=1, **options)
