"""Graph break on a path that only the second call of the sequence takes."""

import torch

from pytest_torch_compile import call, check_compile

EXPECT = [("graph-break", "graph_break")]


def target(x, debug=False):
    y = x.sin()
    if debug:
        torch._dynamo.graph_break()  # HERE
    return y * 2


def check(**options):
    calls = [call(torch.randn(4)), call(torch.randn(4), debug=True)]
    return check_compile(target, calls=calls, backend="eager", max_recompiles=1, **options)
