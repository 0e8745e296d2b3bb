"""The helper that breaks is called in both branches of a flag: each call of the sequence meets another line."""

import torch

from pytest_torch_compile import call, check_compile

EXPECT = [("graph-break", "of 2, 1 allowed")]


def checkpoint():
    torch._dynamo.graph_break()  # HERE, met in both branches


def target(x, training):
    y = x.sin()
    if training:
        y = y * 2
        checkpoint()
    else:
        y = y * 3
        checkpoint()
    return y.exp()


def check(**options):
    calls = [call(torch.randn(4), True), call(torch.randn(4), False)]
    options = {"backend": "eager", "max_graph_breaks": 1, "max_recompiles": 8, **options}
    return check_compile(target, calls=calls, **options)
