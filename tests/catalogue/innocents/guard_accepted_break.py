"""A guarded region with one break that is accepted, met in each of three batches."""

import torch

from pytest_torch_compile import compile_guard


def read(x):
    torch._dynamo.graph_break()
    return x * 2


def step(x):
    return read(x.sin()).cos()


def check(**options):
    torch._dynamo.reset()
    with compile_guard(max_graph_breaks=1) as first:
        torch.compile(step, backend="eager")(torch.randn(4))
    torch._dynamo.reset()
    with compile_guard(accepted_breaks={found.fingerprint for found in first.graph_breaks}) as seen:
        for _ in range(3):
            torch.compile(step, backend="eager")(torch.randn(4))
    return seen
