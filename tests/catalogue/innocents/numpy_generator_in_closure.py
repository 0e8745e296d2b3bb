"""Noise of a NumPy generator that the function closes over, in two calls."""

import numpy
import torch

from pytest_torch_compile import check_compile


def check(**options):
    rng = numpy.random.default_rng(5)

    def target(x):
        scale = float(rng.standard_normal())
        return x.sin() * scale

    report = check_compile(
        target, calls=[torch.ones(4)] * 2, max_graph_breaks=9, max_recompiles=9, backend="eager", **options
    )
    assert rng.standard_normal() == numpy.random.default_rng(5).standard_normal()
    return report
