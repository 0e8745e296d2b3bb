"""A break three calls down is met by each caller's own compilation on the way: one break."""

import torch

from pytest_torch_compile import check_compile


def lowest(x):
    torch._dynamo.graph_break()
    return x + 1


def middle(x):
    return lowest(x.sin()).cos()


def upper(x):
    return middle(x.exp()).tanh()


def target(x):
    return upper(x * 2) * 3


def check(**options):
    return check_compile(target, torch.randn(4), backend="eager", max_graph_breaks=1, **options)
