"""One compiled function with one break, called from two lines of the region and compiled for two dtypes."""

import torch

from pytest_torch_compile import compile_guard


def read(x):
    torch._dynamo.graph_break()
    return x * 2


def step(x):
    return read(x.sin()).cos()


def check(**options):
    torch._dynamo.reset()
    compiled = torch.compile(step, backend="eager")
    with compile_guard(max_graph_breaks=1, max_recompiles=8) as seen:
        compiled(torch.randn(4))
        compiled(torch.randn(4, dtype=torch.float64))
    return seen
