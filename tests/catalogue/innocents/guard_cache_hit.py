"""Inductor's cache holds the graph from an earlier run of the same code: a hit in the region is a compilation."""

import torch

from pytest_torch_compile import compile_guard


def step(x):
    return x.sin() * 2 + 1


def check(**options):
    x = torch.randn(8)
    torch._dynamo.reset()
    torch.compile(step)(x)
    torch._dynamo.reset()
    with compile_guard(name="the second process") as seen:
        torch.compile(step)(x)
    return seen
