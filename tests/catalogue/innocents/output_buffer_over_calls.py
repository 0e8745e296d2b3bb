"""A buffer of the caller that three calls fill row by row, through a list that holds it."""

import torch

from pytest_torch_compile import call, check_compile


def target(x, out, row):
    out[0][row] = x.sin()
    return out[0].sum(0)


def check(**options):
    out = [torch.zeros(3, 4)]
    calls = [call(torch.randn(4), out, row) for row in range(3)]
    report = check_compile(target, calls=calls, max_graph_breaks=9, max_recompiles=9, backend="eager", **options)
    assert not out[0].any()
    return report
