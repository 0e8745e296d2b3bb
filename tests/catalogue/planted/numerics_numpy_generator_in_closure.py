"""Noise of a NumPy generator that the function closes over, and a factor of three in compiled code."""

import numpy
import torch

from pytest_torch_compile import check_compile

EXPECT = [("numerics", "")]


def check(**options):
    rng = numpy.random.default_rng(5)

    def target(x):
        y = x.sin() * (3 if torch.compiler.is_compiling() else 1)
        return y * float(rng.standard_normal())

    return check_compile(target, torch.ones(4), max_graph_breaks=9, max_recompiles=9, backend="eager", **options)
