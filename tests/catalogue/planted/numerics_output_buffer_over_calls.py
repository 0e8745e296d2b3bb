"""A buffer of the caller that three calls fill row by row: compiled code writes each row to the first."""

import torch

from pytest_torch_compile import call, check_compile

EXPECT = [("numerics|mutation", "")]
ALSO = {"numerics", "mutation"}


def target(x, out, row):
    out[0 if torch.compiler.is_compiling() else row] = x
    return out * 2


def check(**options):
    out = torch.zeros(3, 4)
    calls = [call(torch.ones(4) * (row + 1), out, row) for row in range(3)]
    return check_compile(target, calls=calls, max_graph_breaks=9, max_recompiles=9, backend="eager", **options)
