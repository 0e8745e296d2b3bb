"""Pairs of a `zip` object, one for each call, and a factor of three in compiled code."""

import torch

from pytest_torch_compile import check_compile

EXPECT = [("numerics", "")]


def check(**options):
    pairs = zip([1.0, 2.0, 3.0, 4.0], [5.0, 6.0, 7.0, 8.0], strict=True)

    def target(x):
        y = x.sin() * (3 if torch.compiler.is_compiling() else 1)
        scale, shift = next(pairs)
        return y * scale + shift

    return check_compile(target, torch.ones(4), max_graph_breaks=9, max_recompiles=9, backend="eager", **options)
