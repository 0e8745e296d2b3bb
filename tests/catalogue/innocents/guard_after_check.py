"""The same function was checked before: the region compiles it for itself."""

import torch

from pytest_torch_compile import check_compile, compile_guard


def step(x):
    return x.sin() * 2


def check(**options):
    torch._dynamo.reset()
    check_compile(step, torch.randn(4), backend="eager")
    with compile_guard() as seen:
        torch.compile(step, backend="eager")(torch.randn(4))
    return seen
