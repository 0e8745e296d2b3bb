"""A sampling loop in a guarded region breaks in a helper that two of its steps share: one break is allowed."""

import torch

from pytest_torch_compile import compile_guard

EXPECT = [("graph-break", "of 2, 1 allowed")]


def log_norm(x):
    torch._dynamo.graph_break()  # HERE, met from two lines of step
    return x.norm()


def step(x):
    before = log_norm(x.sin())
    after = log_norm(x.cos())
    return x * before / after


def check(**options):
    torch._dynamo.reset()
    with compile_guard(max_graph_breaks=1, max_recompiles=8) as seen:
        torch.compile(step, backend="eager")(torch.randn(4))
    return seen
