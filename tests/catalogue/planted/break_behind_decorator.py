"""Two functions wear a decorator that breaks in its wrapper: a break for each of them."""

import functools

import torch

from pytest_torch_compile import check_compile

EXPECT = [("graph-break", "graph break 2 of 2, 1 allowed")]


def traced(function):
    @functools.wraps(function)
    def wrapper(x):
        torch._dynamo.graph_break()  # HERE, met through two functions
        return function(x)

    return wrapper


@traced
def encode(x):
    return x.sin() * 2


@traced
def decode(x):
    return x.cos() + 1


def target(x):
    hidden = encode(x + 1)
    return decode(hidden.exp())


def check(**options):
    return check_compile(target, torch.randn(4), backend="eager", max_graph_breaks=1, max_recompiles=8, **options)
