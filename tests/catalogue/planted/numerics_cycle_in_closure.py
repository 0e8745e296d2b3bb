"""`itertools.cycle` in a closure gives a sign to each call, and compiled code turns it round."""

import itertools

import torch

from pytest_torch_compile import check_compile

EXPECT = [("numerics", "")]


def check(**options):
    signs = itertools.cycle([1.0, -2.0, 4.0])

    def target(x):
        y = -x.sin() if torch.compiler.is_compiling() else x.sin()
        return y * next(signs)

    return check_compile(target, torch.ones(4), max_graph_breaks=9, max_recompiles=9, backend="eager", **options)
